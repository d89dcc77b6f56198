# Sealed files as every program meets them: the frozen ones in tests/golden, and damaged ones. The
# readers themselves are tested against every flipped bit and every forgery in tests/unit/damage.c and malice.c.

load helper

golden=$repo/tests/golden

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	dl-forge checkpoint a:2x3:1,2,3,-4,0 b:scalar:0.5 c:50:normal,1,1 >good.ckpt
	dl-forge checkpoint a:2x3:1,2,3,-4,1 b:scalar:0.5 c:50:normal,1,1 >other.ckpt
}
setup() {
	cd "$BATS_TEST_TMPDIR" || return
	cp "$BATS_FILE_TMPDIR"/*.ckpt .
}

# refused MESSAGE FILE: status 3, one line, nothing shown of what follows the damage.
refused() {
	run -3 --separate-stderr dl-show --verify "$2"
	expect_stdout ""
	expect_stderr_line "$1"
}

@test "every good file of format 1 is read, number by number" {
	local f
	cd "$golden/1/good"
	for f in *; do
		case $f in *.json) continue ;; esac
		dl-show -T ../golden.pub --json "$f" | sed 's/xxxx*/x/g' | diff - "$f.json"
		dl-show -T ../golden.pub --json - <"$f" | sed 's/xxxx*/x/g; s/standard input/'"$f/" |
			diff - "$f.json"
	done
}

@test "every bad file of format 1 is refused with its status and its line" {
	local f got said
	cd "$golden/1/bad"
	for f in *; do
		got=0
		said=$(dl-show -T ../golden.pub --verify "$f" 2>&1) || got=$?
		echo "$got $said"
	done | diff - ../refused
}

@test "a reader written from dl-frame(5) agrees about good files and about damaged ones" {
	local f
	command -v python3 >/dev/null && command -v zstd >/dev/null || skip "no python3 or zstd"
	export PYTHONDONTWRITEBYTECODE=1
	dl-forge -e f32r delta a:300:normal,1,1 b:7:1,-1e-40,nan,inf,0 >pair
	dl-forge -e bf16 checkpoint a:300:normal,1,1 >half
	corpus 40000 >text
	dl-data -o bytes text
	seq 0 999 70000 | dl-data --ids --vocab 70000 -o ids
	for f in good.ckpt pair half bytes.tok ids.tok "$golden"/1/good/*[a-z]; do
		case $f in *.json) continue ;; esac
		dl-show "$f" 2>/dev/null | sed -n 's/^  \(identity\|content\)  */\1 /p' >want
		python3 "$golden/read_frame.py" "$f" | head -n 2 | diff - want
	done
	head -c 500 good.ckpt >cut.ckpt
	flip_bit other.ckpt 3000
	for f in cut.ckpt other.ckpt "$golden"/1/bad/{byte-*,cut*,empty,newer-format,twice,unknown-*,value-*,zstd-*}; do
		run -1 python3 "$golden/read_frame.py" "$f"
	done
}

@test "a file that is cut anywhere is refused with status 3, from a disk and from a pipe" {
	local n size
	size=$(stat -c %s good.ckpt)
	for n in 0 1 7 8 39 40 51 52 100 200 $((size / 2)) $((size - 49)) $((size - 48)) $((size - 1)); do
		head -c "$n" good.ckpt >cut.ckpt
		refused '^dl-show: cut\.ckpt: (frame [0-9]+: truncated: ends|truncated: ends|empty: )' cut.ckpt
		run -3 --separate-stderr dl-show --verify - < <(head -c "$n" good.ckpt)
		expect_stderr_line '^dl-show: standard input: '
	done
}

@test "a changed bit is refused with status 3 and the number of its frame" {
	local bit
	for bit in 400 700 1000 2000 4000 5000; do
		cp good.ckpt flipped.ckpt
		flip_bit flipped.ckpt "$bit"
		refused '^dl-show: flipped\.ckpt: (frame [0-9]+: (seal does not verify|damaged|truncated)|damaged)' \
			flipped.ckpt
	done
	flip_bit good.ckpt 100 # in the signer's key: then nobody has signed it
	run -3 --separate-stderr dl-show --verify good.ckpt
	expect_stderr_like '^dl-show: good\.ckpt: '
}

@test "what follows the end is refused: a byte, or a second file" {
	(cat good.ckpt && printf x) >more.ckpt
	refused '^dl-show: more\.ckpt: damaged: more bytes follow its end$' more.ckpt
	cat good.ckpt other.ckpt >two.ckpt
	refused '^dl-show: two\.ckpt: damaged: more bytes follow its end$' two.ckpt
}

@test "the beginning of one file and the end of another are no file" {
	local at=$(($(stat -c %s good.ckpt) / 2))
	(head -c "$at" good.ckpt && tail -c +$((at + 1)) other.ckpt) >spliced.ckpt
	refused '^dl-show: spliced\.ckpt: frame [0-9]+: seal does not verify$' spliced.ckpt
}

@test "what is shown before the damage was true" {
	dl-show good.ckpt >whole
	head -c -60 good.ckpt >cut.ckpt
	run -3 --separate-stderr dl-show cut.ckpt
	[ -n "$output" ]
	grep '^  a ' <<<"$output" | diff - <(grep '^  a ' whole)
	[[ $output != *identity* && $output != *content* ]]
}

@test "files of other kinds are told apart in words" {
	zstd -q good.ckpt 2>/dev/null || skip "no zstd"
	run -1 --separate-stderr dl-show good.ckpt.zst
	expect_stderr_line '^dl-show: good\.ckpt\.zst: not a dl file: it is compressed, unpack it first$'
	run -1 --separate-stderr dl-show /dev/zero
	expect_stderr_line '^dl-show: /dev/zero: not a dl file$'
	mkfifo fifo
	run -1 --separate-stderr dl-show fifo
	expect_stderr_line '^dl-show: fifo: a FIFO that nobody writes to$'
}

@test "a gigabyte of values is verified in 64 MiB of addresses" {
	need_plain_build
	dl-forge checkpoint a:260000000:0 >large.ckpt
	(ulimit -v 65536 && dl-show -j 1 --verify large.ckpt)
	(ulimit -v 65536 && dl-show -j 1 --verify <large.ckpt)
	(ulimit -v 65536 && dl-show -j 1 large.ckpt | grep '^  a  *260000000 ')
}

@test "the same values and key give the same bytes" {
	dl-forge checkpoint a:2x3:1,2,3,-4,0 b:scalar:0.5 c:50:normal,1,1 >again.ckpt
	expect_same good.ckpt again.ckpt
}
