/* beat - see card.h. */
#include "card.h"
#include "round/beat.h"

CARD_TARGET(beat)
