/* head - see card.h. */
#include "card.h"
#include "round/head.h"

CARD_TARGET(head)
