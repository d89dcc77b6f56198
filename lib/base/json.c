#include "base/json.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/num.h"

/* Length of the UTF-8 sequence at s, or 0 when there is none: overlong forms and surrogates are
 * none. */
static size_t sequence(const unsigned char *s)
{
	size_t n = 0;

	if (s[0] < 0x80)
		n = 1;
	else if (s[0] >= 0xc2 && s[0] < 0xf5)
		n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
		(s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

static int character(struct buf *out, const unsigned char *s, size_t n)
{
	if (n == 0 || s[0] < 0x20 || s[0] == 0x7f)
		return buf_fmt(out, "\\u%04x", s[0]);
	if (s[0] == '"' || s[0] == '\\')
		return buf_fmt(out, "\\%c", s[0]);
	return buf_add(out, s, n);
}

int json_text(struct buf *out, const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	int rc = buf_str(out, "\"");

	while (*p && rc == 0) {
		size_t n = sequence(p);

		rc = character(out, p, n);
		p += n ? n : 1;
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
