#include "base/json.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/num.h"
#include "base/utf8.h"

/* n bytes; 0: one that is of no character. */
static int character(struct buf *out, const char *s, size_t n)
{
	const unsigned char c = (unsigned char)*s;

	if (n == 0 || c < 0x20 || c == 0x7f)
		return buf_fmt(out, "\\u%04x", c);
	if (s[0] == '"' || s[0] == '\\')
		return buf_fmt(out, "\\%c", s[0]);
	return buf_add(out, s, n);
}

int json_text(struct buf *out, const char *s)
{
	int rc = buf_str(out, "\"");

	while (*s && rc == 0) {
		uint32_t point;
		size_t n = utf8_decode(s, &point);

		rc = character(out, s, n);
		s += n ? n : 1;
	}
	return rc == 0 ? buf_str(out, "\"") : rc;
}

static const char *digits(const char *s)
{
	return s + strspn(s, "0123456789");
}

static bool is_number(const char *s)
{
	const char *end;

	s += *s == '-';
	end = digits(s);
	if (end == s || (*s == '0' && end > s + 1))
		return false;
	if (*end == '.') {
		s = end + 1;
		end = digits(s);
		if (end == s)
			return false;
	}
	if (*end == 'e' || *end == 'E') {
		s = end + 1;
		s += *s == '-' || *s == '+';
		end = digits(s);
		if (end == s)
			return false;
	}
	return *end == '\0';
}

int json_value(struct buf *out, const char *s)
{
	return is_number(s) ? buf_str(out, s) : json_text(out, s);
}

int json_f64(struct buf *out, double x)
{
	char text[32];

	if (!isfinite(x))
		return buf_str(out, "null");
	num_f64_text(text, x);
	return buf_str(out, text);
}
