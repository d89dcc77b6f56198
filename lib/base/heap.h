/*
 * heap - what becomes of memory that is freed.
 */
#ifndef HEAP_H
#define HEAP_H

/*
 * From now on freed blocks of up to some megabytes stay with the process, for the next ones: for programs that
 * read and write small sealed files all day long. Giving their buffers back to the system, and taking them
 * anew for the next file, costs several times what the file itself does. Harmless where malloc has no such
 * choice.
 */
void heap_keep(void);

#endif
