#include "form/ids.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/num.h"
#include "base/say.h"

static int not_an_id(const struct ids *p, size_t length)
{
	char word[IDS_WORD + 1], shown[5 * IDS_WORD];

	memcpy(word, p->word, length);
	word[length] = '\0';
	say_escape(shown, sizeof shown, word);
	return err_set(ERR_DATA, "line %" PRIu64 ": '%s' is not a token id", p->line + 1, shown);
}

static int end_word(struct ids *p, uint32_t *out, size_t *count)
{
	size_t length = p->length;
	uint64_t id;

	if (length == 0)
		return 0;
	p->word[length] = '\0';
	p->length = 0;
	if (strlen(p->word) != length || num_u64(p->word, &id) < 0)
		return not_an_id(p, length);
	if (id >= p->vocab)
		return err_set(ERR_DATA,
			       "line %" PRIu64 ": id %" PRIu64 " is not below the vocabulary of %" PRIu32,
			       p->line + 1, id, p->vocab);
	out[(*count)++] = (uint32_t)id;
	p->in_line = true;
	return 0;
}

static void end_line(struct ids *p, uint32_t *out, size_t *count)
{
	if (p->in_line && p->ends)
		out[(*count)++] = p->end;
	p->in_line = false;
	p->line++;
}

static bool blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

int ids_parse(struct ids *p, uint32_t *out, size_t *count, const char *text, size_t n)
{
	*count = 0;
	for (size_t i = 0; i < n; i++) {
		int rc;

		if (!blank(text[i])) {
			p->word[p->length++] = text[i];
			if (p->length == IDS_WORD)
				return not_an_id(p, IDS_WORD);
			continue;
		}
		rc = end_word(p, out, count);
		if (rc < 0)
			return rc;
		if (text[i] == '\n')
			end_line(p, out, count);
	}
	return 0;
}

int ids_end(struct ids *p, uint32_t *out, size_t *count)
{
	int rc;

	*count = 0;
	rc = end_word(p, out, count);
	if (rc == 0 && p->in_line)
		end_line(p, out, count);
	return rc;
}

static uint32_t unpack(const uint8_t *from, size_t size)
{
	return size == 1 ? from[0] : size == 2 ? le16_get(from) : le32_get(from);
}

int ids_unpack(uint32_t *out, const uint8_t *from, size_t size, size_t n, uint32_t vocab,
	uint64_t first)
{
	for (size_t i = 0; i < n; i++) {
		out[i] = unpack(from + i * size, size);
		if (out[i] >= vocab)
			return err_set(ERR_DATA, "token %" PRIu64 ": id %" PRIu32
				       " is not below the vocabulary of %" PRIu32,
				       first + i, out[i], vocab);
	}
	return 0;
}
