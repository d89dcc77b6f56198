load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	new_home own
}

@test "show makes the key on first use and prints one line, the same every time" {
	run -0 --separate-stderr dl-key show
	expect_stdout_like '^dl-key-1 [A-Za-z0-9+/]{43}= [A-Za-z0-9._-]+$'
	[ "${#lines[@]}" -eq 1 ]
	expect_no_stderr
	first=$output
	run -0 --separate-stderr dl-key show
	expect_stdout "$first"
	[ "$(stat -c %a "$HOME/.config/dl/default.key")" = 600 ]
	expect_no_temporary "$HOME/.config/dl"
}

@test "twenty programs that need a key at the same time agree on one" {
	for i in $(seq 20); do dl-key show >"show.$i" 3>&- & done
	wait
	[ "$(cat show.* | sort -u | wc -l)" -eq 1 ]
	[ "$(cat show.* | wc -l)" -eq 20 ]
	expect_same show.1 "$HOME/.config/dl/default.pub"
}

@test "show -f prints the fingerprint that list prints" {
	run -0 --separate-stderr dl-key show -f
	expect_stdout_like '^[0-9a-f]{32}$'
	print=$output
	run -0 --separate-stderr dl-key list
	expect_stdout_like "$print +own"
}

@test "gen makes a pair and never overwrites one" {
	run -0 --separate-stderr dl-key gen -o bob
	expect_stdout ""
	expect_no_stderr
	[ "$(stat -c %a bob.key)" = 600 ]
	cp bob.key before
	run -1 --separate-stderr dl-key gen -o bob
	expect_stderr_line '^dl-key: bob\.pub is there already$'
	rm bob.pub
	run -1 --separate-stderr dl-key gen -o bob
	expect_stderr_line '^dl-key: bob\.key is there already$'
	expect_same before bob.key
	expect_no_file bob.pub
}

@test "gen without a name makes the default key once" {
	run -0 dl-key gen
	run -1 --separate-stderr dl-key gen
	expect_stderr_line '^dl-key: you have a key already: dl-key show prints it, dl-key gen --replace makes'
}

@test "gen --replace makes a new own key and keeps the old one beside it" {
	config=$HOME/.config/dl
	run -0 dl-key gen --replace
	old=$(dl-key show -f)
	cp "$config/default.key" before
	run -0 --separate-stderr dl-key gen --replace -v
	expect_stdout ""
	new=$(dl-key show -f)
	[ "$new" != "$old" ]
	expect_stderr_line "^dl-key: made $config/default.key: [A-Za-z0-9._-]+ $new\$"
	expect_same before "$config/default.old-${old:0:8}.key"
	[ "$(stat -c %a "$config/default.old-${old:0:8}.key")" = 600 ]
	[ "$(dl-key show -f "$config/default.old-${old:0:8}.pub")" = "$old" ]
	run -2 --separate-stderr dl-key gen --replace -o bob
	expect_stderr_line "^dl-key: --replace is for one's own key"
}

@test "a public half that is missing, or of another key, is written again at the next use" {
	new_home
	conf=$XDG_CONFIG_HOME/dl
	dl-key show >old
	command -v strace >/dev/null || skip "no strace"
	for when in 1 2 3 4 5 6; do # killed before each file that gets its name
		strace -f -o /dev/null -e trace=linkat -e inject=linkat:signal=KILL:when=$when dl-key gen --replace || true
		run -0 --separate-stderr dl-key show
		expect_no_stderr
		[ "$output" = "$(cat "$conf/default.pub")" ] || complain "killed at $when"
	done
	expect_differ old "$conf/default.pub"
	cp "$conf/default.pub" want
	for spoil in 'rm default.pub' "cp '$PWD/old' default.pub" 'echo x >default.pub'; do
		(cd "$conf" && eval "$spoil")
		printf 'd_model 16\nlayers 1\nheads 2\nff 32\n' | dl-init -c - >g0.ckpt
		expect_same want "$conf/default.pub"
	done
	printf '# mine\n' | cat - want >"$conf/default.pub" # what says the same stays
	dl-key show >/dev/null
	[ "$(head -n 1 "$conf/default.pub")" = '# mine' ]
}

@test "where the public half can't be written the key is used nevertheless" {
	new_home
	dl-key show >mine
	(cd "$XDG_CONFIG_HOME/dl" && rm default.pub && mkdir default.pub default.lock)
	run -0 --separate-stderr dl-key show
	expect_no_stderr
	expect_same mine <(printf '%s\n' "$output")
}

@test "nothing is signed with a revoked key, and a new one is the remedy" {
	corpus 2000 >corpus.txt
	dl-init >g0.ckpt && dl-data -o a corpus.txt
	dl-key revoke -q "$(dl-key show -f)"
	refused() { # PROGRAM ARGUMENT...
		run -3 --separate-stderr "$@"
		expect_stdout ""
		expect_stderr_line "^$1: your own key '.*' \([0-9a-f]+\) is revoked: .* dl-key gen --replace\$"
	}
	refused dl-init
	refused dl-data corpus.txt
	refused dl-learn -n 1 -d a.tok g0.ckpt
	refused dl-merge g0.ckpt g0.ckpt
	dl-key gen --replace
	run -0 --separate-stderr dl-init -o g0.ckpt
	expect_no_stderr
	dl-show --verify g0.ckpt
}

@test "a key that is made on first use is noted with -v" {
	run -0 --separate-stderr dl-init -v -o g0.ckpt
	[ "${#stderr_lines[@]}" -eq 2 ]
	expect_stderr_like "^dl-init: made $HOME/.config/dl/default.key: [A-Za-z0-9._-]+ [0-9a-f]{32}"
	run -0 --separate-stderr dl-key gen -v -o bob
	expect_stderr_line '^dl-key: made bob\.key: bob [0-9a-f]{32}$'
}

@test "a name that is a path in disguise or too long is refused with status 2" {
	for name in a/-rf a/.hidden 'a b' $'a\nb' "$(printf 'x%.0s' $(seq 65))" é ''; do
		run -2 --separate-stderr dl-key gen -o "$name"
		expect_stderr_line '^dl-key: key .*: a name is 1 to 64 of'
	done
	run -0 dl-key gen -o "$(printf 'x%.0s' $(seq 64))"
}

@test "show prints the public half of a secret key file, under any file name" {
	dl-key gen -o bob
	run -0 --separate-stderr dl-key show bob.key
	expect_stdout "$(cat bob.pub)"
	mv bob.key alice.key
	run -0 --separate-stderr dl-key show alice.key
	expect_stdout "$(cat bob.pub)"
	DL_KEY=alice.key run -0 --separate-stderr dl-key show
	expect_stdout "$(cat bob.pub)"
	run -0 --separate-stderr dl-key show -k alice.key
	expect_stdout "$(cat bob.pub)"
}

@test "a secret key that others may read is refused, with the remedy" {
	dl-key gen -o bob
	for mode in 0644 0640 0604 0620; do
		chmod $mode bob.key
		run -1 --separate-stderr dl-key show -k bob.key
		expect_stdout ""
		expect_stderr_line '^dl-key: bob\.key: others may read this secret key: chmod 600'
	done
	chmod 400 bob.key
	run -0 dl-key show -k bob.key
}

@test "key files may end in CRLF, LF or nothing" {
	dl-key gen -o bob
	for end in '\r\n' '\n' '' '\n\n' ' \t\n'; do
		printf "%s$end" "$(cat bob.key)" >variant.key
		printf "%s$end" "$(cat bob.pub)" >variant.pub
		chmod 600 variant.key
		run -0 --separate-stderr dl-key show variant.key
		expect_stdout "$(cat bob.pub)"
		run -0 --separate-stderr dl-key show variant.pub
		expect_stdout "$(cat bob.pub)"
	done
}

@test "key files that are empty, zero, cut, swapped or something else are refused" {
	dl-key gen -o bob
	code=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
	refused() { # TEXT WHY
		umask 077
		printf '%s' "$1" >bad.key
		run -1 --separate-stderr dl-key show bad.key
		expect_stdout ""
		expect_stderr_line "^dl-key: bad\.key: $2"
		expect_no_file "$HOME/.config/dl/default.key"
	}
	refused '' 'is empty'
	refused $'\n' 'is empty'
	refused "dl-secret-1 $code bob" 'the key is all zeros'
	refused "$(head -c 40 bob.key)" 'not a key: one line'
	refused "$(cat bob.pub)" 'a public key, where a secret key belongs'
	refused "$(cat bob.key) more" 'not a key: one line'
	refused "$(cat bob.key bob.key)" 'not a key: one line'
	refused "dl-secret-2 $code bob" "starts with 'dl-secret-2'"
	refused "dl-secret-1 ${code%=} bob" 'not 32 bytes in base64'
	refused "dl-secret-1 ${code/A/!} bob" 'not 32 bytes in base64'
	refused "$(cut -d' ' -f1,2 bob.key) ../x" "key '../x': a name is"
	refused $'\x1b[2J' "starts with '.x1b"
	head -c 100000 /dev/zero >bad.key
	run -1 --separate-stderr dl-key show bad.key
	expect_stderr_line '^dl-key: bad\.key: longer than'
	printf 'dl-key-1 %s zero\n' "$code" >zero.pub
	run -1 --separate-stderr dl-key trust zero.pub
	expect_stderr_line '^dl-key: zero\.pub: line 1: the key is all zeros'
	run -1 --separate-stderr dl-key trust bob.key
	expect_stderr_line '^dl-key: bob\.key: line 1: a secret key, where a public key belongs'
}

@test "missing files and directories are named" {
	run -1 --separate-stderr dl-key show -k nowhere.key
	expect_stderr_line '^dl-key: nowhere\.key: No such file'
	DL_KEY=nowhere.key run -1 --separate-stderr dl-key show
	expect_stderr_line '^dl-key: nowhere\.key: No such file'
	run -1 --separate-stderr dl-key trust nowhere.pub
	expect_stderr_line '^dl-key: nowhere\.pub: No such file'
	run -1 --separate-stderr dl-key trust .
	expect_stderr_line '^dl-key: \.: is a directory'
	run -1 --separate-stderr dl-key list -T nowhere
	expect_stderr_line '^dl-key: nowhere: No such file'
	HOME='' XDG_CONFIG_HOME='' run -1 --separate-stderr dl-key show
	expect_stderr_line '^dl-key: cannot make a key: no place for keys: neither HOME nor XDG_CONFIG_HOME is set'
}

@test "a public key goes through a pipe and is trusted at the other end" {
	(new_home other && dl-key show) | dl-key trust -v -n other - 2>note
	grep -qE '^dl-key: trusted: other [0-9a-f]{32}$' note
	run -0 --separate-stderr dl-key list
	expect_stdout_like 'other +[0-9a-f]{32} +trusted'
	run -0 dl-key trust "$HOME/.config/dl/trust/other.pub"
}

@test "a key that is trusted already is not entered again, one's own neither" {
	dl-key gen -o bob && dl-key trust bob.pub
	run -0 --separate-stderr dl-key trust -v -n robert bob.pub
	expect_stderr_line '^dl-key: trusted already: bob [0-9a-f]{32}$'
	dl-key show >me.pub
	run -0 --separate-stderr dl-key trust -v -n me me.pub
	expect_stderr_line "^dl-key: trusted already: $(cut -d' ' -f3 me.pub) [0-9a-f]{32}\$"
	[ "$(dl-key list | wc -l)" -eq 3 ]
}

@test "a forgotten key is not trusted, and may be trusted again" {
	dl-key gen -o bob && dl-key gen -o eve && dl-key trust bob.pub eve.pub
	run -0 --separate-stderr dl-key forget bob "$(dl-key show -f eve.pub)"
	expect_stdout ""
	expect_no_stderr
	[ "$(dl-key list | wc -l)" -eq 2 ]
	run -0 dl-key trust bob.pub
	run -1 --separate-stderr dl-key forget bop
	expect_stderr_line "^dl-key: no key is called 'bop' here, did you mean 'bob'\?$"
	dl-key revoke bob && dl-key forget bob
	run -3 dl-key trust bob.pub
}

@test "several keys in one file are all trusted" {
	for name in a b c; do dl-key gen -o $name; done
	(echo '# the team' && cat a.pub && echo && cat b.pub c.pub) | dl-key trust -
	[ "$(dl-key list | grep -c trusted)" -eq 3 ]
	run -2 --separate-stderr dl-key trust -n x a.pub b.pub
	expect_stderr_line '^dl-key: --name is for one key, not for 2 files'
}

@test "another key under a name that is taken is refused, with the remedy" {
	dl-key gen -o bob && dl-key trust bob.pub
	mkdir new && dl-key gen -o new/bob
	run -1 --separate-stderr dl-key trust new/bob.pub
	expect_stderr_line "^dl-key: new/bob\.pub: another key \([0-9a-f]+\) is called 'bob' here: revoke"
	expect_same bob.pub "$HOME/.config/dl/trust/bob.pub"
	dl-key trust -n bob2 new/bob.pub
	dl-key list | grep -q '^bob2 .*trusted'
}

@test "a revoked key stays revoked, and its owner may have a new one" {
	dl-key gen -o bob && dl-key trust bob.pub
	run -0 --separate-stderr dl-key revoke bob
	expect_stdout ""
	expect_no_stderr
	dl-key list | grep -q '^bob .*revoked$'
	run -3 --separate-stderr dl-key trust bob.pub
	expect_stderr_line "^dl-key: bob\.pub: the key [0-9a-f]+ of 'bob' is revoked here"
	run -3 dl-key trust -n robert bob.pub
	mkdir new && dl-key gen -o new/bob
	run -0 dl-key trust new/bob.pub
	dl-key list | grep -q '^bob .*trusted$'
}

@test "revoking takes a name, one's own included, or a fingerprint, but not a guess" {
	dl-key gen -o bob && dl-key trust bob.pub
	run -1 --separate-stderr dl-key revoke bop
	expect_stderr_line "^dl-key: no key is called 'bop' here, did you mean 'bob'\?$"
	print=$(dl-key show -f bob.pub)
	dl-key revoke "${print^^}"
	dl-key list | grep -q '^bob .*revoked$'
	name=$(dl-key show | cut -d' ' -f3)
	run -0 --separate-stderr dl-key revoke "$name"
	expect_stderr_line "^dl-key: $name is your own key"
	dl-key list | grep -q "^$name .*revoked$"
}

@test "list shows every revoked key, also one that was replaced, forgotten, never trusted, or one's own" {
	dl-key gen -o anna && dl-key gen -o bob && dl-key trust anna.pub bob.pub
	anna=$(dl-key show -f anna.pub) bob=$(dl-key show -f bob.pub) own=$(dl-key show -f)
	name=$(dl-key show | cut -d' ' -f3)
	dl-key revoke anna "${bob^^}"
	mkdir new && dl-key gen -o new/anna && dl-key trust new/anna.pub
	dl-key forget bob
	run -0 --separate-stderr dl-key revoke "$own"
	expect_stderr_line "^dl-key: $own is your own key"
	dl-key gen --replace
	dl-key revoke 0123456789abcdef0123456789abcdef
	echo "fedcba9876543210fedcba9876543210 # stolen in May" >>"$HOME/.config/dl/trust/revoked"
	run -0 --separate-stderr dl-key list
	expect_no_stderr
	[ "${#lines[@]}" -eq 8 ]
	expect_stdout_like "anna +$(dl-key show -f new/anna.pub)  trusted"
	expect_stdout_like "anna +$anna  revoked"
	expect_stdout_like "bob +$bob  revoked"
	expect_stdout_like "$name +$own  revoked"
	expect_stdout_like "$(dl-key show -f)  own"
	expect_stdout_like $'\n- +0123456789abcdef0123456789abcdef  revoked'
	expect_stdout_like $'\n- +fedcba9876543210fedcba9876543210  revoked'
	dl-key list --json >list.json
	python3 - "$anna" <<-'PYTHON'
	import json, sys
	keys = {k["fingerprint"]: k for k in map(json.loads, open("list.json"))}
	assert len(keys) == 7, keys
	assert keys[sys.argv[1]] == {"name": "anna", "fingerprint": sys.argv[1], "key": None, "state": "revoked"}
	assert keys["0123456789abcdef0123456789abcdef"]["name"] is None
	PYTHON
}

@test "a list of revoked keys that makes no sense stops everything" {
	dl-key gen -o bob && dl-key trust bob.pub
	printf '# old\nnot a fingerprint\n' >"$HOME/.config/dl/trust/revoked"
	run -1 --separate-stderr dl-key list
	expect_stderr_line '^dl-key: .*/trust/revoked: line 2: not a fingerprint of 32 hex digits'
}

@test "list --json is an object a line with everything in it" {
	dl-key gen -o bob && dl-key trust bob.pub
	run -0 --separate-stderr dl-key list --json
	printf '%s' "$output" >list.json
	python3 - bob.pub <<-'PYTHON'
	import json, sys
	keys = {k["name"]: k for k in map(json.loads, open("list.json"))}
	assert len(keys) == 2, keys
	tag, code, name = open(sys.argv[1]).read().split()
	assert keys["bob"]["key"] == code and keys["bob"]["state"] == "trusted", keys
	PYTHON
}

@test "wrong words and options are refused with status 2" {
	run -2 --separate-stderr dl-key
	expect_stderr_line '^dl-key: what to do\?'
	run -2 --separate-stderr dl-key shwo
	expect_stderr_line "^dl-key: 'shwo' is none of"
	run -2 --separate-stderr dl-key trust
	expect_stderr_line "^dl-key: 'trust' needs to know which"
	run -2 --separate-stderr dl-key show a b
	expect_stderr_line "^dl-key: 'show' has no use for 'b'"
	run -2 --separate-stderr dl-key show --json
	expect_stderr_line "^dl-key: option --json is not for 'show'"
	run -2 --separate-stderr dl-key list --jsn
	expect_stderr_line "^dl-key: unknown option '--jsn', did you mean '--json'"
	run -2 --separate-stderr dl-key gen -o a -o b
	expect_stderr_line '^dl-key: option --output given twice'
}

@test "a full or closed standard output is an error" {
	run -1 --separate-stderr bash -c 'dl-key show >/dev/full'
	expect_stderr_line '^dl-key: standard output: No space left'
	run -1 --separate-stderr bash -c 'dl-key show >&-'
	expect_stderr_line '^dl-key: standard output'
}

@test "a disk that is full while a key is made leaves no half of one" {
	need_small_disk
	run -1 --separate-stderr small_disk 4k sh -c '
		head -c 4096 /dev/zero >fill; dl-key gen -o bob; s=$?; ls -A; exit $s'
	expect_stderr_like '^dl-key: .*No space left'
	expect_stdout fill
}

# ---- members of a run

# a_run: a run of one's own, and the keys of others.
a_run() {
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 16' >my.conf
	dl-init -r run -c my.conf -P 2
	dl-key gen -o anna
	dl-key gen -o bert
}
# serial: of the manifest.
serial() {
	dl-show run/manifest | sed -n 's/^  serial  *//p'
}
# role NAME: as list -r prints it.
role() {
	dl-key list -r run | sed -n "s/^$1  *[0-9a-f]*  //p"
}

@test "members are admitted, get other roles, and are revoked, each time with a new serial" {
	a_run
	[ "$(serial)" = 1 ]
	run -0 --separate-stderr dl-key admit -r run anna.pub
	expect_stdout ""
	expect_no_stderr
	[ "$(serial)" = 2 ]
	[ "$(role anna)" = learner ]
	run -0 --separate-stderr dl-key admit -v -r run anna.pub
	expect_stderr_line '^dl-key: admitted already as learner: anna [0-9a-f]{32}$'
	[ "$(serial)" = 2 ]
	dl-key admit -r run --as both anna.pub
	dl-key admit --run run --as syncer -n bert-2 - <bert.pub
	[ "$(serial)" = 4 ]
	[ "$(role anna)" = both ]
	[ "$(role bert-2)" = syncer ]
	run -0 --separate-stderr dl-key revoke -v -r run bert-2 "$(dl-key show -f anna.pub)"
	expect_stderr_like 'run: its manifest has serial 5 now'
	[ "$(role anna)" = revoked ]
	dl-key revoke -r run anna
	[ "$(serial)" = 5 ]
	dl-show --verify run/manifest
	expect_no_temporary run
}

# at_once COMMAND: with each of m1 to m20 behind it, all at the same time; all must succeed.
at_once() {
	local i pid pids=()
	for i in {1..20}; do
		"$@" "m$i" 2>>words &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || complain "one failed" "$(cat words)" || return
	done
}
admit_one() {
	dl-key admit -r run "$1.pub"
}

@test "many who change a run, or the list of the revoked, at the same time all have their turn" {
	local i
	a_run
	for i in {1..20}; do
		dl-key gen -o "m$i"
		dl-key trust -T list "m$i.pub"
	done
	at_once admit_one
	[ "$(serial)" = 21 ]
	[ "$(dl-key list -r run | grep -c ' learner$')" = 20 ]
	at_once dl-key revoke -T list
	[ "$(wc -l <list/revoked)" = 20 ]
	at_once dl-key revoke -r run
	[ "$(dl-key list -r run | grep -c ' revoked$')" = 20 ]
}
@test "a run that is in use for long is status 4" {
	a_run
	run -4 --separate-stderr flock run/manifest.lock dl-key admit -r run anna.pub
	expect_stderr_line '^dl-key: manifest: in use by '
	[ "$(serial)" = 1 ]
}

@test "what was revoked in a run stays out; its name is free" {
	a_run
	dl-key admit -r run anna.pub
	dl-key revoke -r run anna
	run -3 --separate-stderr dl-key admit -r run anna.pub
	expect_stderr_line "^dl-key: the key [0-9a-f]{32} of 'anna' is revoked in this run"
	dl-key admit -r run -n anna bert.pub
	[ "$(role anna)" = $'learner\nrevoked' ] || [ "$(role anna)" = $'revoked\nlearner' ]
}

@test "a key that the owner has revoked is not admitted" {
	a_run
	dl-key trust anna.pub && dl-key revoke anna
	run -3 --separate-stderr dl-key admit -r run anna.pub
	expect_stderr_line "^dl-key: the key $(dl-key show -f anna.pub) of 'anna' is revoked here: take it out of"
	run -3 dl-key admit -r run -n other anna.pub
	run -3 dl-key admit -r run --as syncer bert.pub anna.pub
	[ "$(serial)" = 1 ]
	[ "$(dl-key list -r run | wc -l)" -eq 2 ]
}

@test "a name belongs to one key, a key has one name" {
	a_run
	dl-key admit -r run anna.pub
	run -1 --separate-stderr dl-key admit -r run -n anna bert.pub
	expect_stderr_line "^dl-key: another key takes part as 'anna': revoke that one first"
	run -1 --separate-stderr dl-key admit -r run -n ann anna.pub
	expect_stderr_line "^dl-key: the key [0-9a-f]{32} takes part already, as 'anna'$"
	run -1 --separate-stderr dl-key revoke -r run anne
	expect_stderr_line "^dl-key: nobody takes part as 'anne', did you mean 'anna'\?$"
	run -1 --separate-stderr dl-key revoke -r run "$(dl-key show -f)"
	expect_stderr_line "^dl-key: that is the owner's key"
	[ "$(serial)" = 2 ]
}

@test "several are admitted together or not at all" {
	a_run
	cp bert.pub other.pub
	dl-key gen -o new
	sed -i 's/ new$/ anna/' new.pub
	run -1 --separate-stderr dl-key admit -r run anna.pub bert.pub new.pub
	expect_stderr_line "another key takes part as 'anna'"
	[ "$(serial)" = 1 ]
	dl-key admit -r run anna.pub bert.pub
	[ "$(serial)" = 2 ]
	[ "$(dl-key list -r run | wc -l)" -eq 4 ]
}

@test "the owner takes part without being admitted" {
	a_run
	dl-key show | dl-key admit -r run -
	[ "$(serial)" = 1 ]
	run -0 --separate-stderr dl-key list -r run --json
	[ "${#lines[@]}" -eq 1 ]
	expect_stdout_like '"role":"owner","state":"admitted"}$'
}

@test "nobody but the owner changes a run" {
	a_run
	own=$(dl-key show)
	new_home
	run -3 --separate-stderr dl-key admit -r run anna.pub
	expect_stderr_line '^dl-key: .*manifest: signed by .* not trusted'
	dl-key trust - <<<"$own"
	run -3 --separate-stderr dl-key admit -r run anna.pub
	expect_stderr_line '^dl-key: only the owner of the run may change who takes part, with the key '
	dl-key list -r run
	run -1 --separate-stderr dl-key list -r .
	expect_stderr_line '^dl-key: \.: not a run directory, it has no manifest'
}

@test "a manifest that was tampered with is refused" {
	a_run
	flip_bit run/manifest 3000
	run -3 --separate-stderr dl-key admit -r run anna.pub
	expect_stderr_line '^dl-key: run: manifest: '
	run -3 --separate-stderr dl-key list -r run
	expect_stderr_line '^dl-key: run: manifest: '
}

@test "options of runs that make no sense are refused" {
	a_run
	run -2 --separate-stderr dl-key admit anna.pub
	expect_stderr_line "^dl-key: 'admit' is for a run directory: give it with -r"
	run -2 --separate-stderr dl-key admit -r run
	expect_stderr_line "^dl-key: 'admit' needs to know which"
	run -2 --separate-stderr dl-key admit -r run --as king anna.pub
	expect_stderr_line "^dl-key: option --as: 'king' is not learner, syncer or both$"
	run -2 --separate-stderr dl-key admit -r run -n x anna.pub bert.pub
	expect_stderr_line '^dl-key: --name is for one key'
	run -2 --separate-stderr dl-key trust -r run anna.pub
	expect_stderr_line "^dl-key: option --run is not for 'trust'$"
	run -2 --separate-stderr dl-key revoke --as both anna
	expect_stderr_line "^dl-key: option --as is not for 'revoke'$"
	[ "$(serial)" = 1 ]
}
