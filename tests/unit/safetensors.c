/* safetensors: what is written is read as it was, and each way a header can lie is told. */
#include "unit.h"

#include "base/bytes.h"
#include "form/safetensors.h"
#include "io/fd.h"

#include <stdlib.h>
#include <unistd.h>

/* A file of this header, `length` in front, and so many bytes of data; the caller closes it. */
static int file_of(uint64_t length, const char *header, size_t n, size_t data)
{
	uint8_t bytes[8];
	int fd, rc = fd_temporary(&fd);

	le64_put(bytes, length);
	if (rc == 0)
		rc = fd_write(fd, bytes, 8);
	if (rc == 0)
		rc = fd_write(fd, header, n);
	for (size_t i = 0; i < data && rc == 0; i++)
		rc = fd_write(fd, "\x01", 1);
	CHECK(rc == 0 && lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

static int open_with(uint64_t length, const char *header, size_t data)
{
	struct safetensors s;
	int fd = file_of(length, header, strlen(header), data);
	int rc = safetensors_open(&s, fd);

	safetensors_release(&s);
	close(fd);
	return rc;
}

static int open_header(const char *header, size_t data)
{
	return open_with(strlen(header), header, data);
}

#define T(name, dtype, shape, begin, end) \
	"\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static void test_good_headers(void)
{
	CHECK(open_header("{" T("a", "F32", "[2]", 0, 8) "}", 8) == 0);
	CHECK(open_header("{" T("a", "F32", "[]", 0, 4) "}", 4) == 0);
	CHECK(open_header("{\"__metadata__\":{\"k\":\"v\"}," T("a", "BF16", "[2,2]", 0, 8) "}   ", 8) == 0);
	CHECK(open_header("{" T("b", "F16", "[3]", 4, 10) "," T("a", "U8", "[4]", 0, 4) "}", 10) == 0);
}

static void test_lengths(void)
{
	static const char header[] = "{" T("a", "F32", "[2]", 0, 8) "}";
	const size_t n = sizeof header - 1;

	CHECK(open_with(0, header, 8) == ERR_DATA);
	CHECK_SAYS("header length is 0");
	CHECK(open_with(1, header, 8) == ERR_DATA);
	CHECK(open_with((uint64_t)1 << 63, header, 8) == ERR_DATA);
	CHECK_SAYS("9223372036854775808 is more than the");
	CHECK(open_with(UINT64_MAX, header, 8) == ERR_DATA);
	CHECK(open_with(UINT64_MAX - 7, header, 8) == ERR_DATA);
	CHECK(open_with(n + 9, header, 8) == ERR_DATA);
	CHECK_SAYS("cut short");
	CHECK(open_with(n + 8, header, 8) == ERR_DATA);
	CHECK(open_with((uint64_t)n << 56, header, 8) == ERR_DATA);
	CHECK_SAYS("in the other byte order only");
}

static void test_a_short_file(void)
{
	struct safetensors s;
	int fd;

	CHECK(fd_temporary(&fd) == 0);
	CHECK(safetensors_open(&s, fd) == ERR_DATA);
	CHECK_SAYS("0 bytes are no safetensors file");
	CHECK(fd_write(fd, "1234567", 7) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	CHECK(safetensors_open(&s, fd) == ERR_DATA);
	CHECK_SAYS("7 bytes");
	close(fd);
}

static void test_json(void)
{
	static const char *const bad[] = { "[]", "{\"a\":1}", "{", "{}}", "{\"a\"}", "{\"a\":{}}", "null", "  ",
		"{" T("a", "F32", "[2]", 0, 8), T("a", "F32", "[2]", 0, 8) "}", "{}" };
	struct buf deep = BUF_INIT;
	int rc = buf_str(&deep, "{\"a\":");

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		CHECK(open_header(bad[i], 8) == ERR_DATA);
		CHECK_SAYS("header");
	}
	for (int i = 0; i < 10000; i++)
		rc |= buf_str(&deep, "[");
	for (int i = 0; i < 10000; i++)
		rc |= buf_str(&deep, "]");
	rc |= buf_str(&deep, "}");
	CHECK(rc == 0 && open_header(deep.data, 8) == ERR_DATA);
	CHECK_SAYS("depth");
	buf_release(&deep);
}

static void test_duplicates(void)
{
	CHECK(open_header("{" T("a", "F32", "[1]", 0, 4) "," T("a", "F32", "[1]", 4, 8) "}", 8) == ERR_DATA);
	CHECK_SAYS("tensor 'a' occurs twice");
	CHECK(open_header("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4) ==
		ERR_DATA);
	CHECK_SAYS("duplicate object key");
	CHECK(open_header("{\"__metadata__\":{},\"__metadata__\":{}," T("a", "F32", "[1]", 0, 4) "}", 4) == ERR_DATA);
	CHECK_SAYS("twice");
	CHECK(open_header("{\"__metadata__\":{\"a\":1}," T("a", "F32", "[1]", 0, 4) "}", 4) == ERR_DATA);
	CHECK(open_header("{\"__metadata__\":[]," T("a", "F32", "[1]", 0, 4) "}", 4) == ERR_DATA);
}

static void test_offsets(void)
{
	CHECK(open_header("{" T("a", "F32", "[2]", 0, 8) "," T("b", "F32", "[2]", 4, 12) "}", 12) == ERR_DATA);
	CHECK_SAYS("tensors 'a' and 'b' overlap");
	CHECK(open_header("{" T("a", "F32", "[2]", 0, 8) "," T("b", "F32", "[2]", 0, 8) "}", 8) == ERR_DATA);
	CHECK_SAYS("overlap");
	CHECK(open_header("{" T("a", "F32", "[2]", 0, 8) "," T("b", "F32", "[1]", 12, 16) "}", 16) == ERR_DATA);
	CHECK_SAYS("4 bytes before tensor 'b' belong to none");
	CHECK(open_header("{" T("a", "F32", "[2]", 4, 12) "}", 12) == ERR_DATA);
	CHECK_SAYS("4 bytes before tensor 'a'");
	CHECK(open_header("{" T("a", "F32", "[2]", 0, 8) "}", 7) == ERR_DATA);
	CHECK_SAYS("ends 1 bytes behind the end of the file");
	CHECK(open_header("{" T("a", "F32", "[2]", 0, 8) "}", 9) == ERR_DATA);
	CHECK_SAYS("1 bytes at the end belong to no tensor");
	CHECK(open_header("{" T("a", "F32", "[2]", 8, 0) "}", 8) == ERR_DATA);
	CHECK_SAYS("run backwards");
	CHECK(open_header("{" T("a", "F32", "[2]", -8, 0) "}", 8) == ERR_DATA);
	CHECK_SAYS("are not two sizes");
	CHECK(open_header("{" T("a", "F32", "[2]", 0.0, 8) "}", 8) == ERR_DATA);
	CHECK(open_header("{" T("a", "F32", "[2]", 0, 18446744073709551624) "}", 8) == ERR_DATA);
	CHECK(open_header("{" T("a", "F32", "[2]", 9223372036854775800, 9223372036854775807) "}", 8) == ERR_DATA);
	CHECK(open_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4) == ERR_DATA);
	CHECK(open_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":{\"a\":0,\"b\":4}}}", 4) == ERR_DATA);
}

static void test_shapes(void)
{
	CHECK(open_header("{" T("a", "F32", "[3]", 0, 8) "}", 8) == ERR_DATA);
	CHECK_SAYS("data_offsets give it 8 bytes, its shape 12");
	CHECK(open_header("{" T("a", "F32", "[-2]", 0, 8) "}", 8) == ERR_DATA);
	CHECK_SAYS("dimension 0 of its shape is no size");
	CHECK(open_header("{" T("a", "F32", "[2.0]", 0, 8) "}", 8) == ERR_DATA);
	CHECK(open_header("{" T("a", "F32", "[\"2\"]", 0, 8) "}", 8) == ERR_DATA);
	CHECK(open_header("{" T("a", "F32", "2", 0, 8) "}", 8) == ERR_DATA);
	CHECK(open_header("{" T("a", "F32", "[4294967296,4294967296]", 0, 0) "}", 0) == ERR_DATA);
	CHECK_SAYS("more than 2^48 elements");
	CHECK(open_header("{" T("a", "F32", "[9223372036854775807,2]", 0, 0) "}", 0) == ERR_DATA);
	CHECK(open_header("{" T("a", "F32", "[0]", 0, 0) "}", 0) == ERR_DATA);
	CHECK_SAYS("dimension 0 is zero");
	CHECK(open_header("{" T("a", "F32", "[1,1,1,1,1]", 0, 4) "}", 4) == ERR_DATA);
	CHECK_SAYS("5 dimensions");
}

static void test_types(void)
{
	CHECK(open_header("{" T("a", "F64", "[1]", 0, 8) "}", 8) == ERR_DATA);
	CHECK_SAYS("tensor 'a' is of type F64");
	CHECK(open_header("{" T("a", "f32", "[1]", 0, 4) "}", 4) == ERR_DATA);
	CHECK(open_header("{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4) == ERR_DATA);
}

static void test_names(void)
{
	static const char *const bad[] = { "", "..", "../x", "a/b", "/a", "a..b", ".a", "-a", "a b", "a\\nb", "a\\u0000b",
		"\xc3\xa9", "%s" };
	struct buf text = BUF_INIT;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		buf_clear(&text);
		CHECK(buf_fmt(&text, "{\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", bad[i]) == 0);
		CHECK(open_header(text.data, 4) == ERR_DATA);
		CHECK(strchr(err_text(), '\n') == NULL);
	}
	CHECK(open_header("{\"a\\nb\":7}", 4) == ERR_DATA && strchr(err_text(), '\n') == NULL);
	buf_clear(&text);
	CHECK(buf_fmt(&text, "{\"%0129d\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 1) == 0);
	CHECK(open_header(text.data, 4) == ERR_DATA);
	CHECK_SAYS("a name of 129 characters");
	buf_release(&text);
}

/* ---- round trips ---- */

static const struct tensor shapes[] = {
	{ "a", DTYPE_F32, ENC_F32, 2, { 3, 5 }, 15 },
	{ "scalar", DTYPE_F32, ENC_BF16, 0, { 0 }, 1 },
	{ "long", DTYPE_F32, ENC_F32, 1, { 70000 }, 70000 },
	{ "ids", DTYPE_U16, ENC_PLAIN, 1, { 7 }, 7 },
};
#define TENSORS (sizeof shapes / sizeof shapes[0])

static float value_at(size_t t, size_t i)
{
	return (float)((int)((t * 977 + i * 31) % 4001) - 2000) / 64; /* 12 bits: whole in f16 and, of few, bf16 */
}

static int write_all(int fd, struct safetensors *s, float *value)
{
	static const uint16_t ids[7] = { 1, 2, 3, 4, 5, 6, 65535 };
	struct buf header = BUF_INIT;
	int rc = safetensors_header(s, &header);

	if (rc == 0)
		rc = fd_write(fd, header.data, header.len);
	buf_release(&header);
	for (size_t t = 0; t < TENSORS && rc == 0; t++) {
		for (size_t i = 0; i < shapes[t].count; i++)
			value[i] = t == 1 ? 1.5f : value_at(t, i);
		rc = t == 3 ? fd_write(fd, ids, sizeof ids)
			: safetensors_put(fd, s->part[t].type, 0, value, shapes[t].count);
	}
	return rc;
}

static void check_all(int fd, float *value)
{
	struct safetensors s;
	uint16_t ids[7] = { 0 };
	int wrong = 0;

	CHECK(safetensors_open(&s, fd) == 0 && s.tensors.n == TENSORS);
	CHECK_STR(conf_get(&s.metadata, "k"), "v \"w\"");
	for (size_t t = 0; t < 3; t++) {
		CHECK_STR(s.tensors.v[t].name, shapes[t].name);
		CHECK(safetensors_floats(&s, t, 0, value, shapes[t].count) == 0);
		for (size_t i = 0; i < shapes[t].count; i++)
			wrong += value[i] != (t == 1 ? 1.5f : value_at(t, i));
	}
	CHECK(wrong == 0);
	CHECK(safetensors_integers(&s, 3, 0, ids, 7) == 0 && ids[0] == 1 && ids[6] == 65535);
	CHECK(safetensors_end(&s) == 0);
	CHECK(!s.regular || (safetensors_floats(&s, 2, 69999, value, 1) == 0 && value[0] == value_at(2, 69999)));
	safetensors_release(&s);
}

static void test_round_trip(enum safetensors_type floats)
{
	float *value = malloc(70000 * sizeof *value);
	struct safetensors s = { 0 };
	int fd, rc = fd_temporary(&fd);

	CHECK(rc == 0 && value && conf_set(&s.metadata, "k", "v \"w\"") == 0);
	for (size_t t = 0; t < TENSORS; t++)
		CHECK(safetensors_add(&s, &shapes[t], t == 3 ? SAFETENSORS_U16 : t == 1 ? SAFETENSORS_BF16 : floats) == 0);
	CHECK(write_all(fd, &s, value) == 0);
	CHECK((uint64_t)lseek(fd, 0, SEEK_CUR) == s.part[0].begin + safetensors_bytes(&s));
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	check_all(fd, value);
	safetensors_release(&s);
	close(fd);
	free(value);
}

static void test_a_stream(void)
{
	static const char header[] = "{" T("a", "F32", "[1]", 0, 4) "," T("b", "U8", "[1]", 4, 5) "}";
	struct safetensors s;
	uint8_t length[8], byte = 0;
	float x;
	int fd[2];

	le64_put(length, sizeof header - 1);
	CHECK(pipe(fd) == 0 && fd_write(fd[1], length, 8) == 0 && fd_write(fd[1], header, sizeof header - 1) == 0);
	CHECK(fd_write(fd[1], "\0\0\x80\x3f\x07?", 6) == 0);
	close(fd[1]);
	CHECK(safetensors_open(&s, fd[0]) == 0);
	CHECK(safetensors_integers(&s, 1, 0, &byte, 1) == ERR_IO);
	CHECK_SAYS("out of order");
	CHECK(safetensors_floats(&s, 0, 0, &x, 1) == 0 && x == 1);
	CHECK(safetensors_integers(&s, 1, 0, &byte, 1) == 0 && byte == 7);
	CHECK(safetensors_end(&s) == ERR_DATA);
	CHECK_SAYS("goes on");
	safetensors_release(&s);
	close(fd[0]);
}

static void test_too_large_for_the_type(void)
{
	const float value[] = { 1, 2, -70000 };
	int fd;

	CHECK(fd_temporary(&fd) == 0);
	CHECK(safetensors_put(fd, SAFETENSORS_F16, 100, value, 3) == ERR_DATA);
	CHECK_SAYS("element 102 is -70000, too large for f16");
	CHECK(safetensors_put(fd, SAFETENSORS_BF16, 0, value, 3) == 0);
	close(fd);
}

int main(void)
{
	test_good_headers();
	test_lengths();
	test_a_short_file();
	test_json();
	test_duplicates();
	test_offsets();
	test_shapes();
	test_types();
	test_names();
	test_round_trip(SAFETENSORS_F32);
	test_round_trip(SAFETENSORS_F16);
	test_a_stream();
	test_too_large_for_the_type();
	return unit_done("safetensors");
}
