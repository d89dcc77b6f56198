/* Keys and trust, in a home of their own. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "form/trust.h"
#include "io/atomic.h"
#include "unit.h"

static void put(const char *path, const char *text, mode_t mode)
{
	CHECK(atomic_put(path, mode, text, strlen(text), atomic_commit) == 0);
}

static void test_names(void)
{
	char name[80];

	CHECK(key_name_check("key", "a") == 0);
	CHECK(key_name_check("key", "Node-1.example_2") == 0);
	memset(name, 'x', sizeof name);
	name[64] = '\0';
	CHECK(key_name_check("key", name) == 0);
	name[64] = 'x';
	name[65] = '\0';
	CHECK(key_name_check("key", name) == ERR_USAGE);
	CHECK(key_name_check("key", "") == ERR_USAGE);
	CHECK(key_name_check("key", "..") == ERR_USAGE);
	CHECK(key_name_check("key", "-rf") == ERR_USAGE);
	CHECK(key_name_check("key", "a/b") == ERR_USAGE);
	CHECK(key_name_check("learner", "a\nb") == ERR_USAGE);
	CHECK_SAYS("learner 'a\\nb'");
}

static void test_parse(void)
{
	static const char good[] = "dl-secret-1 AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE= me";
	static const char zero[] = "dl-secret-1 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= me";
	struct key_pub p;
	struct key k;
	char line[128];

	CHECK(key_parse(&k, good, strlen(good)) == 0);
	CHECK_STR(k.name, "me");
	snprintf(line, sizeof line, "%s\r\n", good);
	CHECK(key_parse(&k, line, strlen(line)) == 0);
	CHECK(key_parse(&k, line, strlen(line) + 1) == ERR_DATA); /* a NUL */
	CHECK(key_parse(&k, zero, strlen(zero)) == ERR_DATA);
	CHECK_SAYS("all zeros");
	CHECK(key_parse(&k, "", 0) == ERR_DATA);
	CHECK_SAYS("empty");
	CHECK(key_parse(&k, " \r\n", 3) == ERR_DATA);
	snprintf(line, sizeof line, "%s twice", good);
	CHECK(key_parse(&k, line, strlen(line)) == ERR_DATA);
	CHECK(key_parse(&k, good, strlen(good) - 4) == ERR_DATA);
	CHECK(key_pub_parse(&p, good, strlen(good)) == ERR_DATA);
	CHECK_SAYS("a secret key, where a public key belongs");
	CHECK(key_pub_parse(&p, "dl-key-1 AAAA me", 16) == ERR_DATA);
	CHECK_SAYS("base64");
	CHECK(key_pub_parse(&p, "\x01\xff", 2) == ERR_DATA);
}

static void test_files(void)
{
	struct key k, again;
	struct key_pub p;

	CHECK(key_generate("bob", NULL) == 0);
	CHECK(key_generate("bob", NULL) == ERR_IO);
	CHECK_SAYS("bob.pub is there already");
	CHECK(unlink("bob.pub") == 0);
	CHECK(key_generate("bob", NULL) == ERR_IO);
	CHECK_SAYS("bob.key is there already");
	CHECK(key_load(&k, "bob.key") == 0);
	CHECK(rename("bob.key", "renamed.key") == 0);
	CHECK(key_load(&again, "renamed.key") == 0);
	CHECK_STR(again.name, "bob");
	CHECK(memcmp(&again.secret, &k.secret, sizeof k.secret) == 0);
	CHECK(chmod("renamed.key", 0644) == 0);
	CHECK(key_load(&again, "renamed.key") == ERR_DATA);
	CHECK_SAYS("renamed.key: others may read");
	CHECK(key_generate("a b", NULL) == ERR_USAGE);
	CHECK(key_load_pub(&p, "missing.pub") == ERR_IO);
	put("none.pub", "# nothing\n\n", 0644);
	CHECK(key_load_pub(&p, "none.pub") == ERR_DATA);
	CHECK_SAYS("none.pub: no key in it");
}

static void test_default(void)
{
	struct key a, b;
	struct stat st;

	CHECK(key_find(&a, NULL, NULL) == 0);
	CHECK(key_find(&b, NULL, NULL) == 0);
	CHECK(memcmp(&a.secret, &b.secret, sizeof a.secret) == 0);
	CHECK_STR(a.name, b.name);
	CHECK(stat(".config/dl/default.key", &st) == 0 && (st.st_mode & 0777) == 0600);
	CHECK(key_generate_default(NULL) == 1);
	setenv("DL_KEY", "missing.key", 1);
	CHECK(key_find(&a, NULL, NULL) == ERR_IO);
	setenv("DL_KEY", "", 1);
	CHECK(key_find(&a, NULL, NULL) == 0);
}

static void test_trust(void)
{
	struct trust t;
	struct key own;
	struct key_pub anna, other;
	const char *name = NULL;
	char print[TRUST_PRINT], text[200];

	CHECK(key_find(&own, NULL, NULL) == 0);
	CHECK(key_generate("anna", NULL) == 0 && key_load_pub(&anna, "anna.pub") == 0);
	CHECK(trust_load(&t, NULL, &own) == 0);
	CHECK(trust_judge(&t, &own.secret.pub, &name) == 0);
	CHECK_STR(name, own.name);
	CHECK(trust_judge(&t, &anna.pub, NULL) == ERR_AUTH);
	CHECK_SAYS("not trusted");
	trust_release(&t);

	CHECK(trust_add(".config/dl/trust", &anna, &own) == 0);
	CHECK(trust_add(".config/dl/trust", &anna, &own) == 1);
	other = anna;
	strcpy(other.name, "ann");
	CHECK(trust_add(".config/dl/trust", &other, NULL) == 1);
	CHECK_STR(other.name, "anna");
	key_public(&other, &own);
	strcpy(other.name, "me");
	CHECK(trust_add(".config/dl/trust", &other, &own) == 1);
	CHECK_STR(other.name, own.name);
	CHECK(trust_load(&t, NULL, NULL) == 0);
	CHECK(trust_judge(&t, &anna.pub, &name) == 0);
	CHECK_STR(name, "anna");
	CHECK(trust_judge(&t, &own.secret.pub, NULL) == ERR_AUTH);
	CHECK(trust_named(&t, "anna") && !trust_named(&t, "bob"));
	trust_release(&t);

	key_public(&other, &own);
	strcpy(other.name, "anna");
	CHECK(trust_add(".config/dl/trust", &other, NULL) == ERR_DATA);
	CHECK_SAYS("--name");
	CHECK(trust_revoke(".config/dl/trust", "ana", &own) == ERR_DATA);
	CHECK_SAYS("did you mean 'anna'");
	CHECK(trust_revoke(".config/dl/trust", "anna", &own) == 0);
	CHECK(trust_revoke(".config/dl/trust", "anna", &own) == 0);
	CHECK(trust_add(".config/dl/trust", &anna, NULL) == ERR_AUTH);
	CHECK(trust_load(&t, "anna.pub", NULL) == 0); /* given by hand, revoked all the same */
	CHECK(trust_judge(&t, &anna.pub, NULL) == ERR_AUTH);
	CHECK_SAYS("anna, which is revoked");
	CHECK(trust_named(&t, "anna") == NULL);
	trust_release(&t);
	CHECK(trust_add(".config/dl/trust", &other, NULL) == 0); /* the new key of one whose old is revoked */

	sig_fingerprint(print, &own.secret.pub);
	CHECK(trust_signer(&own, NULL, NULL, NULL) == 0);
	CHECK(trust_revoke(".config/dl/trust", print, &own) == 1);
	CHECK(trust_load(&t, NULL, &own) == 0);
	CHECK(t.revoked_n == 2);
	CHECK_STR(t.revoked[0].name, "anna");
	CHECK_STR(t.revoked[1].name, "anna"); /* as it was called above */
	CHECK(trust_judge(&t, &own.secret.pub, NULL) == ERR_AUTH);
	trust_release(&t);
	CHECK(trust_signer(&own, NULL, "anna.pub", NULL) == ERR_AUTH);
	CHECK_SAYS("is revoked: sign with another one (-k), or make a new one: dl-key gen --replace");

	snprintf(text, sizeof text, "# a list\r\n\r\n%s  # stolen in May\r\n%s #anna \nnonsense\r\n", print, print);
	t = (struct trust){ 0 };
	CHECK(trust_parse_revoked(&t, text, strlen(text)) == ERR_DATA);
	CHECK_SAYS("line 5: not a fingerprint");
	CHECK(t.revoked_n == 2);
	CHECK_STR(t.revoked[0].name, "");
	CHECK_STR(t.revoked[1].name, "anna");
	trust_release(&t);
}

/* What a process that runs hears of keys that are revoked meanwhile. */
static void test_refresh(void)
{
	struct trust t;
	struct key_pub eve, ida;

	CHECK(key_generate("eve", NULL) == 0 && key_load_pub(&eve, "eve.pub") == 0);
	CHECK(key_generate("ida", NULL) == 0 && key_load_pub(&ida, "ida.pub") == 0);
	CHECK(trust_add("list", &eve, NULL) == 0 && trust_add("list", &ida, NULL) == 0);
	CHECK(trust_load(&t, "list", NULL) == 0);
	CHECK(trust_refresh(&t) == 0 && trust_judge(&t, &eve.pub, NULL) == 0);
	CHECK(mkdir("elsewhere", 0700) == 0 && chdir("elsewhere") == 0); /* the path was relative */
	CHECK(trust_revoke("../list", "eve", NULL) == 0);
	CHECK(trust_judge(&t, &eve.pub, NULL) == 0);
	CHECK(trust_refresh(&t) == 1);
	CHECK(trust_judge(&t, &eve.pub, NULL) == ERR_AUTH && trust_judge(&t, &ida.pub, NULL) == 0);
	CHECK(!trust_named(&t, "eve") && trust_refresh(&t) == 0);
	/* of one size and made at one time, yet another */
	put("../list/revoked", "junk\n", 0644);
	CHECK(trust_refresh(&t) == ERR_DATA && trust_refresh(&t) == ERR_DATA);
	CHECK_SAYS("/list/revoked: line 1: not a fingerprint");
	put("../list/revoked", "#unk\n", 0644);
	CHECK(trust_refresh(&t) == 0);
	CHECK(unlink("../list/revoked") == 0 && trust_refresh(&t) == 0); /* no key comes back by that */
	CHECK(trust_judge(&t, &eve.pub, NULL) == ERR_AUTH);
	/* the user's own list counts wherever keys come from */
	CHECK(trust_add("../.config/dl/trust", &ida, NULL) == 0);
	CHECK(trust_revoke("../.config/dl/trust", "ida", NULL) == 0);
	CHECK(trust_refresh(&t) == 1 && trust_judge(&t, &ida.pub, NULL) == ERR_AUTH);
	trust_release(&t);
	CHECK(chdir("..") == 0);
}

static void test_directories(void)
{
	struct trust t;

	CHECK(mkdir("dir", 0700) == 0 && mkdir("dir/folder.pub", 0700) == 0);
	CHECK(mkfifo("dir/fifo.pub", 0600) == 0);
	put("dir/.hidden.pub", "junk", 0644);
	put("dir/readme", "junk", 0644);
	CHECK(trust_load(&t, "dir", NULL) == 0 && t.n == 0);
	trust_release(&t);
	put("dir/bad.pub", "junk\n", 0644);
	CHECK(trust_load(&t, "dir", NULL) == ERR_DATA);
	CHECK_SAYS("dir/bad.pub: line 1: starts with 'junk'");
	CHECK(unlink("dir/bad.pub") == 0);
	CHECK(symlink("nowhere", "dir/revoked") == 0);
	CHECK(trust_load(&t, "dir", NULL) == ERR_IO);
	CHECK(trust_load(&t, "missing", NULL) == ERR_IO);
}

int main(void)
{
	char home[] = "/tmp/dl-key-XXXXXX", clean[64];

	if (!mkdtemp(home) || chdir(home) < 0)
		return 1;
	setenv("HOME", home, 1);
	unsetenv("XDG_CONFIG_HOME");
	unsetenv("DL_KEY");
	unsetenv("DL_TRUST");
	test_names();
	test_parse();
	test_files();
	test_default();
	test_trust();
	test_refresh();
	test_directories();
	snprintf(clean, sizeof clean, "rm -rf %s", home);
	return system(clean) != 0 || unit_done("key");
}
