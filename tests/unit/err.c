#include <errno.h>
#include <pthread.h>

#include "unit.h"

static void test_sentences(void)
{
	CHECK(err_set(ERR_DATA, "frame %d: bad", 7) == ERR_DATA);
	CHECK_STR(err_text(), "frame 7: bad");
	CHECK(err_at(ERR_AUTH, "%s", "b.delta") == ERR_AUTH);
	CHECK_STR(err_text(), "b.delta: frame 7: bad");
	err_set(ERR_DATA, "again: %s", err_text()); /* its own slot as argument */
	CHECK_STR(err_text(), "again: b.delta: frame 7: bad");
	errno = ENOSPC;
	CHECK(err_sys("write") == ERR_IO);
	CHECK_STR(err_text(), "write: No space left on device");
	errno = ENOMEM;
	CHECK(err_sys("mmap") == ERR_NOMEM);
	CHECK(err_nomem() == ERR_NOMEM);
	CHECK_STR(err_text(), "out of memory");
}

static void test_long_sentence_is_cut(void)
{
	char text[3 * ERR_TEXT];

	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	err_set(ERR_DATA, "%s", text);
	CHECK(strlen(err_text()) == ERR_TEXT - 1);
	err_at(ERR_DATA, "place");
	CHECK(strlen(err_text()) == ERR_TEXT - 1);
	CHECK(strncmp(err_text(), "place: xxx", 10) == 0);
}

static void test_status(void)
{
	CHECK(err_status(0) == 0 && err_status(5) == 0);
	CHECK(err_status(ERR_IO) == 1 && err_status(ERR_NOMEM) == 1 && err_status(ERR_DATA) == 1);
	CHECK(err_status(ERR_USAGE) == 2 && err_status(ERR_AUTH) == 3);
	CHECK(err_status(ERR_AGAIN) == 4 && err_status(ERR_BUSY) == 4);
	CHECK(err_status(-99) == 1);
}

static void *fail_elsewhere(void *note)
{
	err_save(note, err_set(ERR_BUSY, "from the other thread"));
	return NULL;
}

static void test_threads(void)
{
	struct err_note note;
	pthread_t thread;

	err_set(ERR_DATA, "mine");
	CHECK(pthread_create(&thread, NULL, fail_elsewhere, &note) == 0);
	pthread_join(thread, NULL);
	CHECK_STR(err_text(), "mine");
	CHECK(err_restore(&note) == ERR_BUSY);
	CHECK_STR(err_text(), "from the other thread");
}

int main(void)
{
	test_sentences();
	test_long_sentence_is_cut();
	test_status();
	test_threads();
	return unit_done("err");
}
