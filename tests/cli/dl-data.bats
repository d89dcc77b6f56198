# shellcheck disable=SC2002 # pipes are what is tested
load helper

# tokens FILE...: what is in the shards, one after the other.
tokens() {
	local f
	for f in "$@"; do dl-data -d "$f"; done
}

@test "a text goes in and comes out, from a file, redirected, and through a pipe" {
	corpus 100000 >text
	dl-data text >a.tok
	dl-data <text >b.tok
	cat text | dl-data - >c.tok
	dl-data -o d text
	for f in a b c d; do
		run -0 --separate-stderr dl-data -d $f.tok
		expect_no_stderr
		dl-data -d $f.tok | cmp - text
		expect_same a.tok $f.tok
	done
	expect_no_temporary
}

@test "random bytes, invalid UTF-8 and zeros are kept as they are" {
	head -c 70000 /dev/urandom >random
	printf 'caf\xe9 \xe2\x81' >latin
	head -c 40000 /dev/zero >zeros
	for f in random latin zeros; do
		dl-data $f | dl-data -d | cmp - $f
	done
}

@test "several files follow one another with nothing in between" {
	printf abc >f1 && printf '' >f2 && printf 'de\n' >f3
	printf xyz | dl-data f1 f2 - f3 | dl-data -d >got
	[ "$(cat got)" = "abcxyzde" ]
}

@test "an empty corpus is an error and writes nothing" {
	: >empty
	run -1 --separate-stderr dl-data -o out empty
	expect_stdout ""
	expect_stderr_line '^dl-data: empty: the corpus is empty$'
	run -1 --separate-stderr bash -c 'dl-data </dev/null'
	expect_stderr_line '^dl-data: standard input: the corpus is empty$'
	run -1 --separate-stderr dl-data -o out empty empty
	expect_stderr_line '^dl-data: empty and the other inputs: the corpus is empty$'
	printf ' \n\n' >blank
	run -1 --separate-stderr dl-data --ids --vocab 10 -o out blank
	expect_stderr_line '^dl-data: blank: the corpus is empty$'
	expect_no_file out.tok
}

@test "a sealed file is not packed again as if it were text" {
	corpus 5000 >text
	dl-data -o q text
	for input in "q.tok" "text q.tok" "- <q.tok" "--binary u16 --vocab 65536 q.tok"; do
		run -1 --separate-stderr bash -c "dl-data -o again $input"
		expect_stderr_line '^dl-data: (q\.tok|standard input): is a sealed file, not text or ids: .*dl-data -d'
	done
	run -1 --separate-stderr bash -c 'cat q.tok | dl-data -o again'
	expect_stderr_line '^dl-data: standard input: is a sealed file'
	expect_no_file again.tok
	head -c 7 q.tok | dl-data | dl-data -d | cmp - <(head -c 7 q.tok)
}

@test "a corpus of one byte is a shard of one token" {
	printf x >one
	dl-data -o one one
	[ "$(dl-data -d one.tok)" = x ]
}

@test "--split shares out every block once, round robin" {
	corpus 100000 >text
	run -0 --separate-stderr dl-data --split 3 --block 1000 -o part text
	expect_stdout ""
	expect_no_stderr
	expect_no_file part.tok part.3.tok part.valid.tok
	for i in 0 1 2; do
		dl-data -d "part.$i.tok" >"part.$i"
		dl-show --json "part.$i.tok" | grep -q "\"part\":$i,\"parts\":3"
	done
	split -b 1000 -d -a 3 text block.
	for i in $(seq -w 0 99); do cat "block.0$i" >>"again.$((10#$i % 3))"; done
	for i in 0 1 2; do expect_same "part.$i" "again.$i"; done
}

@test "--contiguous gives regions that are the corpus when put together" {
	corpus 100001 >text
	dl-data --split 4 --contiguous --block 1000 -o part text
	tokens part.?.tok | cmp - text
	for i in 0 1 2 3; do
		[ "$(dl-data -d part.$i.tok | wc -c)" -ge 25000 ]
	done
}

@test "a stem may be given as the name of the file" {
	corpus 20000 >text
	dl-data -o a.tok text
	dl-data -o b.tok --split 2 --holdout 0.1 --block 1000 text
	[ "$(echo ./*.tok)" = "./a.tok ./b.0.tok ./b.1.tok ./b.valid.tok" ]
}

@test "--holdout takes every k-th block and leaves the others to the shards" {
	corpus 100000 >text
	dl-data --holdout 0.2 --split 2 --block 1000 -o part text
	split -b 1000 -d -a 2 text block.
	j=0
	for i in $(seq 0 99); do
		f=$(printf 'block.%02d' "$i")
		if [ $((i % 5)) -eq 4 ]; then
			cat "$f" >>again.valid
		else
			cat "$f" >>again.$((j % 2))
			j=$((j + 1))
		fi
	done
	for p in 0 1 valid; do
		dl-data -d part.$p.tok | cmp - again.$p
	done
	dl-data --holdout 0.2 --block 1000 -o alone text
	expect_same part.valid.tok alone.valid.tok
	tokens alone.tok alone.valid.tok >all
	[ "$(wc -c <all)" -eq 100000 ]
}

@test "the same input gives the same bytes, however it comes" {
	corpus 100000 >text
	dl-data --split 2 --holdout 0.1 --block 500 -o a text
	cat text | dl-data --split 2 --holdout 0.1 --block 500 -o b
	head -c 30000 text >t1 && tail -c +30001 text >t2
	LC_ALL=de_DE.UTF-8 dl-data --split 2 --holdout 0.1 --block 500 -o c t1 t2
	for p in 0 1 valid; do
		expect_same a.$p.tok b.$p.tok
		expect_same a.$p.tok c.$p.tok
	done
}

@test "more shards than blocks are refused, with the remedy, and nothing is written" {
	corpus 20000 >text
	run -1 --separate-stderr dl-data --split 4 -o part text
	expect_stderr_line '^dl-data: 4 shards, but 20000 tokens are only 3 blocks of 8192 .*--block'
	run -1 --separate-stderr dl-data --split 2 --holdout 0.05 -o part text
	expect_stderr_line '^dl-data: nothing would be held out: .*--block'
	run -1 --separate-stderr dl-data --split 3 --holdout 0.4 -o part text
	expect_stderr_line '^dl-data: nothing would be held out|^dl-data: 3 shards'
	expect_no_file part.0.tok part.valid.tok
	run -0 dl-data --split 4 --block 100 --holdout 0.05 -o part text
}

@test "numbers that make no sense are refused with status 2" {
	corpus 20000 >text
	for n in 0 -1 1.5 x '' 4097 99999999999999999999; do
		run -2 --separate-stderr dl-data --split "$n" -o part text
		expect_stderr_line '^dl-data: option --split: '
	done
	for f in 0 -0.1 0.6 1 nan 0,1 1e-9; do
		run -2 --separate-stderr dl-data --holdout "$f" -o part text
		expect_stderr_line '^dl-data: option --holdout: '
	done
	run -2 --separate-stderr dl-data --block 0 --split 2 -o part text
	expect_stderr_line '^dl-data: option --block: '
	run -2 --separate-stderr dl-data --ids --vocab 0 text
	expect_stderr_line '^dl-data: option --vocab: '
}

@test "options that would be ignored are refused with status 2" {
	corpus 20000 >text
	refused() { # MESSAGE OPTION...
		local why=$1
		shift
		run -2 --separate-stderr dl-data "$@" text
		expect_stdout ""
		expect_stderr_line "^dl-data: $why"
	}
	refused 'option --vocab goes with --ids or --binary' --vocab 300
	refused 'option --bytes goes with --ids' --bytes 300
	refused 'option --eos goes with --ids' --binary u16 --vocab 300 --eos 1
	refused 'option --contiguous goes with --split' --contiguous -o x
	refused 'option --block goes with --split or --holdout' --block 100 -o x
	refused 'option --split or --holdout goes with --output' --split 2
	refused 'option --trust goes with --unpack' -T x
	refused 'the size of the vocabulary is needed' --ids
	refused 'the size of the vocabulary is needed' --binary u16
	refused 'option --binary: u16 or u32' --binary u8 --vocab 20
	refused '--ids is for text and --binary is not' --ids --binary u16 --vocab 20
	refused 'option --eos: 20 is not below the vocabulary of 20' --ids --vocab 20 --eos 20
	refused "option --output: '' is not" -o ''
	for stem in dir/ . .. dir/. dir/.. / dir/.tok dir/..tok; do
		refused "option --output: '$stem' is not the beginning of a file's name" --split 2 -o $stem
		refused "option --output: '$stem' is not the beginning of a file's name" -o $stem
	done
	refused '--unpack prints on standard output' -d -o x
	refused "unknown option '--spilt', did you mean '--split'" --spilt 2
}

@test "ids come back as they went in, at every width" {
	for vocab in 200 256 257 65536 65537 1000000; do
		awk -v v=$vocab 'BEGIN { for (i = 0; i < 20000; i++) print (i * 7919) % v }' >ids
		dl-data --ids --vocab $vocab -o ids ids
		if [ $vocab -gt 256 ]; then
			dl-data -d ids.tok | cmp - ids
		else
			dl-data -d ids.tok | od -An -v -w1 -tu1 | tr -d ' ' | cmp - ids
		fi
	done
}

@test "ids may be several a line, with blanks and CRLF, and --eos ends the lines that have some" {
	printf '1 22\t333\r\n\n  \n7\n65 4' >ids
	[ "$(dl-data --ids --vocab 1000 ids | dl-data -d | xargs)" = "1 22 333 7 65 4" ]
	[ "$(dl-data --ids --vocab 1000 --eos 2 ids | dl-data -d | xargs)" = "1 22 333 2 7 2 65 4 2" ]
}

@test "binary ids come from pipes and files" {
	seq 0 40000 >ids
	python3 - <<-'PYTHON'
	import struct
	ids = [int(x) for x in open("ids")]
	open("ids.u16", "wb").write(struct.pack("<%dH" % len(ids), *ids))
	open("ids.u32", "wb").write(struct.pack("<%dI" % len(ids), *ids))
	PYTHON
	dl-data --ids --vocab 50000 ids >a.tok
	dl-data --binary u16 --vocab 50000 ids.u16 >b.tok
	cat ids.u32 | dl-data --binary u32 --vocab 50000 >c.tok
	expect_same a.tok b.tok
	expect_same a.tok c.tok
}

@test "a bad id is named by file and line, and nothing is written" {
	seq 0 100 >good
	refused() { # TEXT WHY
		printf %b "$1" >bad
		run -1 --separate-stderr dl-data --ids --vocab 8192 --split 2 --block 10 -o out good bad
		expect_stderr_line "^dl-data: bad: $2"
		expect_no_file out.0.tok out.1.tok
	}
	refused '1 2\n3\n9000\n' 'line 3: id 9000 is not below the vocabulary of 8192$'
	refused '1\n-1\n' "line 2: '-1' is not a token id$"
	refused '[1, 2]\n' "line 1: '\[1,' is not a token id$"
	refused '1\n\n2.5\n' "line 3: '2\.5' is not a token id$"
	refused '\000\n' "line 1: '' is not a token id$"
	refused '99999999999999999999999999999\n' 'line 1: .* is not a token id$'
	refused 'Text\n' "line 1: 'Text' is not a token id$"
	run -1 --separate-stderr bash -c "printf '1\n9000' | dl-data --ids --vocab 8192"
	expect_stdout ""
	expect_stderr_line '^dl-data: standard input: line 2: id 9000'
	printf '\1\0\2' >odd
	run -1 --separate-stderr dl-data --binary u16 --vocab 10 -o out odd
	expect_stderr_line '^dl-data: odd: 3 bytes are not whole ids of 2 bytes$'
	printf '\1\0\12\0' >odd
	run -1 --separate-stderr dl-data --binary u16 --vocab 10 -o out odd
	expect_stderr_line '^dl-data: .*odd: token 1: id 10 is not below the vocabulary of 10$'
	expect_no_file out.tok
	expect_no_temporary
}

@test "what SentencePiece prints is taken as it is" {
	command -v spm_train >/dev/null && command -v spm_encode >/dev/null || skip "no SentencePiece"
	corpus 50000 >text
	spm_train --input=text --model_prefix=m --vocab_size=120 --hard_vocab_limit=false --minloglevel=2 2>/dev/null
	spm_encode --model=m.model --output_format=id <text >ids
	spm_encode --model=m.model --output_format=id <text | dl-data --ids --vocab 120 >shard.tok
	dl-data -d shard.tok | od -An -v -w1 -tu1 | tr -d ' ' | cmp - <(tr ' ' '\n' <ids)
}

@test "-v says what was written" {
	corpus 20000 >text
	run -0 --separate-stderr dl-data -v --split 2 --block 1000 -o part text
	expect_stderr_like '^dl-data: part\.0\.tok: 10000 tokens, shard [0-9a-f]{16}'
	[ "${#stderr_lines[@]}" -eq 2 ]
}

@test "missing files, directories and a FIFO that nobody writes to are named" {
	run -1 --separate-stderr dl-data nowhere
	expect_stdout ""
	expect_stderr_line '^dl-data: nowhere: No such file'
	run -1 --separate-stderr dl-data .
	expect_stderr_line '^dl-data: \.: is a directory'
	mkfifo fifo
	run -1 --separate-stderr dl-data fifo
	expect_stderr_line '^dl-data: fifo: a FIFO that nobody writes to'
	corpus 20000 >text
	run -1 --separate-stderr dl-data -o nowhere/x text
	expect_stderr_line '^dl-data: nowhere/x\.tok: No such file'
}

@test "output that is an input is refused on standard output and harmless by name" {
	corpus 20000 >text
	cp text copy
	run -2 --separate-stderr bash -c 'dl-data text >>text'
	expect_stderr_line '^dl-data: a shard would overwrite one of the inputs'
	expect_same text copy
	ln text link
	run -2 bash -c 'dl-data link 1<>text'
	expect_same text copy
	mv text x.tok
	dl-data -o x x.tok
	dl-data -d x.tok | cmp - copy
	cp x.tok shard
	run -1 --separate-stderr dl-data -o x x.tok # which would be a shard of a shard
	expect_stderr_line '^dl-data: x.tok: '
	expect_same x.tok shard
	cp copy y.0.tok
	for option in "--split 2" "--split 2 --block 64 --holdout 0.1"; do
		# shellcheck disable=SC2086 # words on purpose
		run -2 --separate-stderr dl-data $option -o y y.0.tok
		expect_stderr_line '^dl-data: y.0.tok: is an input, which the output would replace$'
	done
	run -2 --separate-stderr dl-data -o y.0 copy y.0.tok
	expect_stderr_line '^dl-data: y.0.tok: is an input, which the output would replace$'
	expect_same y.0.tok copy
	expect_no_temporary
}

@test "a full disk or output is an error, the files that were there stay" {
	corpus 20000 >text
	run -1 --separate-stderr bash -c 'dl-data text >/dev/full'
	expect_stderr_line '^dl-data: standard output: .*No space left'
	need_small_disk
	head -c 300000 /dev/urandom >random
	dl-data -o random random
	run -1 --separate-stderr small_disk 200k bash -c '
		echo old >x.0.tok; dl-data --split 2 -o x "$0"; s=$?; ls -A; cat x.0.tok; exit $s' "$PWD/random"
	expect_stderr_line '^dl-data: x\.[01]\.tok: .*No space left'
	expect_stdout $'x.0.tok\nold'
}

@test "an interrupted dl-data leaves nothing behind" {
	head -c 30000000 /dev/zero | tr '\0' x >text
	for signal in INT TERM HUP; do
		setsid bash -c "trap - $signal; exec dl-data --split 64 --block 64 -o part text" 3>&- 2>/dev/null &
		pid=$!
		for i in $(seq 200); do
			readlink /proc/"$pid"/fd/* 2>/dev/null | grep -q -e deleted -e '\.tmp$' && break
			sleep 0.01
		done
		kill -s "$signal" "$pid" 2>/dev/null || true
		wait "$pid" || true
		expect_no_temporary
	done
}

@test "interrupted while it waits for more, it dies by that signal" {
	mkfifo in
	for signal in TERM HUP; do # a job of a shell ignores INT
		dl-data -o part in 3>&- 2>err &
		pid=$!
		exec 9>in
		kill -s "$signal" "$pid"
		exec 9>&-
		status=0
		wait "$pid" 2>/dev/null || status=$?
		[ "$status" -eq $((128 + $(kill -l "$signal"))) ] || complain "$signal: status $status" "$(cat err)"
		expect_no_file part.tok && expect_no_temporary
	done
}

@test "shards of a stranger and damaged ones are not unpacked" {
	corpus 20000 >text
	dl-data -o mine text
	cp mine.tok bad.tok
	flip_bit bad.tok 30001
	run -3 --separate-stderr dl-data -d bad.tok
	expect_stdout ""
	expect_stderr_line '^dl-data: bad\.tok: '
	head -c 5000 mine.tok >cut.tok
	run -3 --separate-stderr dl-data -d cut.tok
	expect_stderr_line '^dl-data: cut\.tok: '
	new_home stranger
	run -3 --separate-stderr dl-data -d mine.tok
	expect_stdout ""
	expect_stderr_line '^dl-data: mine\.tok: signed by [0-9a-f]{32}, which is not trusted'
	run -2 --separate-stderr dl-data -d mine.tok mine.tok
	expect_stderr_line '^dl-data: --unpack takes one shard, not 2'
}

@test "memory stays small and files many" {
	need_plain_build
	head -c 60000000 /dev/zero | tr '\0' 'y' >text
	(ulimit -v 200000 && dl-data --split 300 --holdout 0.01 -o part text)
	[ "$(find . -name 'part.*.tok' | wc -l)" -eq 301 ]
	(ulimit -v 50000 && dl-data -o file text && dl-data -o pipe < <(cat text) &&
		yes 1 | head -c 60000000 | dl-data --ids --vocab 2 -o ids)
	expect_same file.tok pipe.tok
}

@test "-o - is standard output, for one shard" {
	corpus 3000 >text
	dl-data -o want text
	dl-data --split 1 -o one text
	run -0 --separate-stderr sh -c 'dl-data -o - text >got.tok && dl-data --split 1 -o - text >part.tok'
	expect_no_stderr
	expect_same got.tok want.tok
	expect_same part.tok one.0.tok
	local many
	for many in "--split 2" "--holdout 0.1" "--split 1 --holdout 0.1"; do
		# shellcheck disable=SC2086 # words on purpose
		run -2 --separate-stderr dl-data $many --block 100 -o - text
		expect_stdout ""
		expect_stderr_line "^dl-data: option --output: standard output takes one shard, not several: give the"
	done
	[ -z "$(find . -name '-*')" ]
}
