# What every program has in common, found by listing bin/ and man/: nothing to add for a new one.

load helper

programs() {
	find "$repo/bin" -name 'dl-*.c' -o -name 'dl-*.sh' | sed 's|.*/||; s|\.[a-z]*$||' | sort
}

# each CHECK: calls CHECK with the name of each program; all of them are tried. Inside of CHECK a
# failing command does not end the test: it says && and return.
each() {
	local program bad=0
	for program in $(programs); do
		"$1" "$program" || { echo "^^^ $program" >&2; bad=1; }
	done
	[ "$bad" -eq 0 ]
}

help() {
	run --separate-stderr "$1" "$2" </dev/null
	expect_status 0 && expect_no_stderr && expect_stdout_like "^usage: $1( |$)" || return 1
	expect_stdout_like "-h, --help" && expect_stdout_like "--version"
	awk 'length() > 80 { print "longer than 80: " $0; bad = 1 } END { exit bad }' <<<"$output"
}
short_help() { help "$1" -h; }
long_help() { help "$1" --help; }
@test "-h and --help print a usage that fits on a terminal" {
	each short_help
	each long_help
}

version() {
	run --separate-stderr "$1" --version </dev/null
	expect_status 0 && expect_no_stderr && expect_stdout_like "^$1, dl tools [0-9.]+$"
}
@test "--version prints one line" {
	each version
}

unknown_option() {
	run --separate-stderr "$1" --no-such-option </dev/null
	expect_status 2 && expect_stdout "" && expect_stderr_line "^$1: unknown option '--no-such-option'"
}
@test "an unknown option is status 2 and one line" {
	each unknown_option
}

# Words of the usage that -h prints.
usage_words() {
	"$1" -h | sed '/^$/q; s/^usage://' | tr -s ' \n' ' '
}
# Words of the SYNOPSIS of the manual page as a reader sees them.
synopsis_words() {
	mandoc -Tascii -O width=1000 "$repo/man/$1.1" | sed 's/.\x08//g' |
		sed -n '/^SYNOPSIS/,/^[A-Z]/{/^[A-Z]/!p}' | tr -s ' \n' ' '
}
synopsis() {
	local usage manual
	usage=$(usage_words "$1")
	manual=$(synopsis_words "$1")
	[ "${usage# }" = "${manual# }" ] || {
		printf '%s\n' "-h says:         $usage" "the manual says: $manual" >&2
		return 1
	}
}
@test "the SYNOPSIS of each manual page is the usage of -h" {
	command -v mandoc >/dev/null || skip "no mandoc"
	each synopsis
}

# Options that -h lists and DESCRIPTION does not explain.
described() {
	local name bad=0
	for name in $("$1" -h | sed -n 's/^  \(-., \)\? *--\([a-z0-9-]*\).*/\2/p'); do
		mandoc -Tascii -O width=1000 "$repo/man/$1.1" | sed 's/.\x08//g' |
			grep -q -e "--$name\b" || { echo "--$name is not in the manual" >&2; bad=1; }
	done
	[ "$bad" -eq 0 ]
}
@test "each manual page explains every option" {
	command -v mandoc >/dev/null || skip "no mandoc"
	each described
}

full_output() {
	local option
	for option in -h --version; do
		run --separate-stderr sh -c '"$0" "$1" >/dev/full' "$1" "$option"
		expect_status 1 &&
			expect_stderr_line "^$1: standard output: No space left on device$" || return 1
	done
}
@test "a full disk under standard output is noticed" {
	each full_output
}

closed_output() {
	run --separate-stderr sh -c '"$0" --version >&-' "$1"
	expect_status 1 && expect_stderr_line "^$1: standard output: "
}
@test "a closed standard output is noticed" {
	each closed_output
}

closed_streams() {
	run sh -c '"$0" --version <&- 2>&-' "$1"
	expect_status 0 && expect_stdout_like "dl tools"
}
@test "closed standard input and error do no harm" {
	each closed_streams
}

broken_pipe() {
	run bash -c 'exec 4<>pipe 5>pipe 4<&-; "$0" -h >&5' "$1"
	expect_status 141 && expect_stdout ""
}
@test "a reader that went away ends a program quietly" {
	mkfifo pipe
	each broken_pipe
}

in_german() {
	run --separate-stderr env LC_ALL=de_DE.UTF-8 LANG=de_DE.UTF-8 "$1" --version
	expect_status 0 && expect_no_stderr
}
@test "the locale changes nothing" {
	each in_german
}

run_examples() {
	local name directory
	name=$(basename "$1")
	directory=$BATS_TEST_TMPDIR/$name
	examples "$1" >"$BATS_TEST_TMPDIR/$name.sh"
	[ -s "$BATS_TEST_TMPDIR/$name.sh" ] || return 0
	if grep -q spm_train "$BATS_TEST_TMPDIR/$name.sh" && ! command -v spm_train >/dev/null; then
		echo "# $name: skipped, no sentencepiece" >&3
		return 0
	fi
	mkdir "$directory"
	cp "$BATS_TEST_TMPDIR/corpus.txt" "$directory"
	new_home "$name"
	(cd "$directory" && sh -ex "../$name.sh" </dev/null >"../$name.log" 2>&1) || {
		tail -n 20 "$BATS_TEST_TMPDIR/$name.log"
		return 1
	} >&2
}
@test "the examples of every manual page run as printed, with a corpus.txt of 200 kB" {
	local page bad=0
	corpus 200000 >"$BATS_TEST_TMPDIR/corpus.txt"
	for page in "$repo"/man/*.[157]; do
		[ -e "$page" ] || continue
		run_examples "$page" || { echo "^^^ $page" >&2; bad=1; }
	done
	[ "$bad" -eq 0 ]
}

@test "what only reads needs no home and makes no key" {
	local program
	dl-init -c tiny -o g0.ckpt
	corpus 2000 | dl-data -o text
	dl-key show >own.pub
	for program in "dl-show g0.ckpt" "dl-show --verify text.tok" "dl-data --unpack text.tok" \
		"dl-eval -d text.tok g0.ckpt" "dl-export -f safetensors -o out g0.ckpt"; do
		# shellcheck disable=SC2086 # words on purpose
		run -0 --separate-stderr env -u HOME -u XDG_CONFIG_HOME DL_TRUST=own.pub $program
		expect_no_stderr
		mkdir empty
		# shellcheck disable=SC2086
		run -0 --separate-stderr env HOME="$PWD/empty" XDG_CONFIG_HOME= DL_TRUST=own.pub $program
		expect_no_stderr
		rmdir empty # nothing was made in it
	done
}

# outputs PROGRAM: each of its ways to write a file by name, here own.tok. Inputs need not be there.
outputs() {
	case $1 in
	dl-chaos) echo "play -o own.tok trace g0.ckpt text.tok" && echo "sim --like run --trace own.tok" ;;
	dl-data) echo "-o own text" ;;
	dl-export) echo "-f safetensors -o own.tok g0.ckpt" ;;
	dl-import) echo "-f hf -o own.tok directory" ;;
	dl-init) echo "-c tiny -o own.tok" ;;
	dl-learn) printf -- '-n 1 -d text.tok %s own.tok g0.ckpt\n' -o -s --metrics ;;
	dl-merge) printf -- '%s own.tok g0.ckpt delta\n' -o -s ;;
	dl-plot) echo "-o own.tok table" ;;
	dl-sync) echo "-r run --checkpoint own.tok" ;;
	dl-key) ;; # writes over nothing that is there
	*) ! "$1" -h | grep -e ' --output' || complain "an output that outputs does not know" ;;
	esac
}
refuses_key() {
	run --separate-stderr "$@" </dev/null
	expect_status 2 && expect_stdout "" &&
		expect_stderr_like ": own.tok: is the key, which the output would replace$"
}
spares_key() {
	local options
	outputs "$1" >ways || return
	while read -r options; do
		# shellcheck disable=SC2086 # words on purpose
		refuses_key "$1" $options -k ./own.tok && refuses_key env DL_KEY=own.tok "$1" $options &&
			refuses_key env XDG_CONFIG_HOME="$PWD/config" "$1" $options || return
	done <ways
	cmp own.tok kept
}
@test "no program writes over the secret key" {
	mkdir -p config/dl
	dl-key gen -q -o own
	mv own.key own.tok
	cp own.tok kept
	ln -s "$PWD/own.tok" config/dl/default.key
	corpus 2000 >text
	each spares_key
}

# overwrites PROGRAM: each of its ways to write over an input by name, here own.tok, which is standard input too.
overwrites() {
	case $1 in
	dl-chaos) printf -- 'play -o own.tok %s\n' "own.tok g text" "trace own.tok text" "trace g own.tok" \
		"--valid own.tok trace g text" ;;
	dl-data) printf -- '-o plain %s\n' "text plain.tok" "text ./plainhard" && # nothing that is sealed is text
		echo "--split 2 --block 512 -o plink plain.tok" ;;
	dl-export) printf -- '-f safetensors -o own.tok %s\n' own.tok - hard ;;
	dl-import) printf -- '-f safetensors -o own.tok %s\n' own.tok - hard ;;
	dl-init) printf -- '-o own.tok %s\n' "-c own.tok" "-c -" "-c ./soft" "--tokenizer own.tok" ;;
	dl-learn) printf -- '-n 1 %s\n' "-d text -o own.tok own.tok" "-d own.tok -o own.tok text" "-d text -o own.tok -" \
		"-d own.tok --metrics own.tok text" "-r run -i a -d own.tok --metrics own.tok" ;;
	dl-plot) printf -- '-o own.tok %s\n' own.tok - "text hard" ;;
	dl-sync) printf -- '-r run --checkpoint run/%s\n' manifest head ;;
	dl-merge) ;; # the next checkpoint may take the place of the last, or of what it was merged from
	dl-key) ;;   # writes over nothing that is there
	*) ! "$1" -h | grep -e ' --output' || complain "an output that overwrites does not know" ;;
	esac
}
spares_inputs() {
	local options
	overwrites "$1" >ways || return
	while read -r options; do
		# shellcheck disable=SC2086 # words on purpose
		run --separate-stderr in_time "$1" $options <own.tok
		expect_status 2 && expect_stdout "" && expect_no_temporary && [ "${#stderr_lines[@]}" -eq 1 ] &&
			expect_stderr_like "is (an|the) input, which (the output|the delta|metrics) would replace$" || return
	done <ways
	cmp own.tok kept && cmp plain.tok text && cmp run/head head && cmp run/manifest manifest
}
@test "no program writes over its input, whatever that is called" {
	dl-init -c tiny -o own.tok
	cp own.tok kept
	ln own.tok hard
	ln -s own.tok soft
	corpus 2000 | tee text trace g plain.tok >/dev/null
	ln plain.tok plainhard
	ln -s plain.tok plink.1.tok
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 32' >small.conf
	dl-init -q -r run -c small.conf
	dl-sync -q -r run --once || [ $? -eq 4 ]
	cp run/head run/manifest .
	each spares_inputs
}

# unnamed PROGRAM: each of its ways to take the name of a file, which is empty here.
unnamed() {
	case $1 in
	dl-chaos) printf '%s\n' "inject -o E -- sleep 5" "inject -- E" "inject --list E" "inject --plan E -- sleep 5" \
		"sim --like E" "sim --for 10s --trace E" "play E g text" ;;
	dl-data) printf '%s\n' E "-d E" "-o x E" "--ids --tokenizer E text" ;;
	dl-eval) printf '%s\n' "-d E g" "-d text.tok E" "--sample 1 E" ;;
	dl-export) printf -- '-f %s\n' "safetensors -o x E" "safetensors -o E g" "gguf -o E g" "hf -o E g" \
		"hf -o x --tokenizer E g" "gguf -o x --tokenizer E g" ;;
	dl-import) printf -- '-f %s\n' "hf E" "safetensors E" "safetensors -o E st" ;;
	dl-init) printf '%s\n' "-o E" "-c E" "-r E" "-r x E" "--tokenizer E" "-k E -o x" ;;
	dl-key) printf '%s\n' "show E" "trust E" "list -r E" "admit -r E own.pub" ;;
	dl-learn) printf -- '-n 1 %s\n' "-d E g" "-d text.tok E" "-d text.tok -o E g" "-d text.tok -s E g" \
		"-d text.tok --metrics E g" "-r E -i a -d text.tok" "-r run -i a -d E" ;;
	dl-merge) printf '%s\n' "E text" "g E" "-o E g text" "-s E g text" ;;
	dl-plot) printf '%s\n' E "-o E table" "table E" ;;
	dl-run) printf -- '-m 1 %s\n' E "--corpus E x" "-c E x" "-k E x" ;;
	dl-show) printf '%s\n' E "--why E" "--tape E" "--ledger E" "--diff E g" "--diff g E" "-T E g" ;;
	dl-sync) printf '%s\n' "-r E" "-r run --checkpoint E" ;;
	dl-top) echo E ;;
	*) complain "a program that unnamed does not know" ;;
	esac
}
tells_nameless() {
	local words i
	unnamed "$1" >ways || return
	while read -r -a words; do
		for i in "${!words[@]}"; do
			[ "${words[i]}" != E ] || words[i]=
		done
		run --separate-stderr in_time "$1" "${words[@]}" </dev/null
		expect_status 2 && expect_stdout "" && expect_stderr_line "^$1: (.*: )?the name of a file is empty$" &&
			[[ $stderr != *": :"* ]] || complain "with ${words[*]@Q}" || return
	done <ways
	expect_no_file x
}
@test "an empty name of a file is told as such" {
	dl-init -c tiny -o g
	corpus 2000 | tee text trace | dl-data -o text
	dl-key show >own.pub
	dl-export -f safetensors -o st g
	printf 'tokens\tloss\n1\t2\n2\t1\n' >table
	dl-init -q -r run -c tiny
	each tells_nameless
}

# from_within FILE PROGRAM...: it reads FILE as standard input, behind a line of another.
from_within() {
	local file=$1
	shift
	{ echo precious && cat "$file"; } >app
	run -0 --separate-stderr in_time sh -c 'read -r first && [ "$first" = precious ] && exec "$@" >out' sh "$@" <app
	expect_no_stderr
}
@test "standard input within a file is read from where it is, by whoever reads it" {
	local a
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 32' 'batch 4' >small.conf
	corpus 5000 >text
	dl-data -o text text
	dl-init -c small.conf -o g
	dl-learn -q -n 2 -i a -d text.tok -o delta g
	dl-merge -o merged g delta
	dl-export -f safetensors -o st g
	printf 'tokens\tloss\n1\t2\n2\t1\n' >table
	from_within g dl-merge - delta
	expect_same out merged
	from_within delta dl-merge g -
	expect_same out merged
	from_within g dl-learn -q -n 2 -i a -d text.tok
	expect_same out delta
	from_within text.tok dl-learn -q -n 2 -i a -d - g
	expect_same out delta
	from_within text.tok dl-data -d
	expect_same out text
	from_within text dl-data
	expect_same out text.tok
	from_within small.conf dl-init -c -
	expect_same out g
	from_within st dl-import -f safetensors -
	expect_same out g
	from_within g dl-export -f safetensors -o -
	expect_same out st
	from_within table dl-plot --script -
	dl-eval -d text.tok g >loss
	from_within text.tok dl-eval -d - g
	expect_same out loss
	from_within g dl-eval -d text.tok
	expect_same out loss
	from_within g dl-show --json
	from_within g dl-init -q -r run -
	for a in trust show; do
		dl-key show >own.pub
		from_within own.pub dl-key $a -
	done
}

# results PROGRAM: its ways to print a result, none of them long, from what make_inputs has made.
results() {
	case $1 in
	dl-chaos)
		echo "sim --chips 512 --for 30s" && echo "play trace g0.ckpt text.tok"
		echo "inject --print --for 10m -- sleep 1"
		;;
	dl-data) echo "text" && echo "-o - text" && echo "-d text.tok" ;;
	dl-eval)
		echo "-d text.tok g0.ckpt" && echo "--sample 5 g0.ckpt"
		echo "--json -d text.tok g0.ckpt" && echo "--logprobs -d text.tok g0.ckpt"
		;;
	dl-export) echo "-f safetensors -o - g0.ckpt" ;;
	dl-import) echo "-f safetensors g0.safetensors" ;;
	dl-init) echo "-c small.conf" && echo "-c small.conf --print" && echo "-c small.conf -o -" ;;
	dl-key) echo "show" && echo "list" ;;
	dl-learn) echo "-n 1 -d text.tok g0.ckpt" && echo "--dry-run -d text.tok g0.ckpt" ;;
	dl-merge) echo "g0.ckpt delta" && echo "-n g0.ckpt delta" && echo "--report -o merged g0.ckpt delta" ;;
	dl-plot) echo "--script table" && { ! command -v gnuplot >/dev/null || echo "table"; } ;;
	dl-run) echo "-m 1 --corpus text --print run" ;;
	dl-show)
		echo "g0.ckpt" && echo "--json g0.ckpt" && echo "--diff g0.ckpt g0.ckpt"
		echo "--tape run" && echo "--why run"
		;;
	dl-sync) echo "-r run --replay" && echo "-r run --checkpoint -" ;;
	dl-top) echo "--once run" ;;
	*) complain "a program that results does not know" ;;
	esac
}
make_inputs() {
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 16' 'batch 2' >small.conf
	corpus 3000 >text
	dl-data -o text text
	dl-init -c small.conf -o g0.ckpt
	dl-export -q -f safetensors -o g0.safetensors g0.ckpt
	dl-export -q -f hf -o directory g0.ckpt
	dl-learn -q -n 1 -d text.tok -o delta g0.ckpt
	printf 'a\tb\n1\t2\n2\t3\n' >table
	dl-chaos sim --mode decoupled --chips 512 --learners 2 -P 2 -H 4 --for 30s --trace trace >/dev/null
	dl-init -q -r run -c small.conf -P 2 -H 4 --target-steps 40
	dl-sync -q -r run --once || [ $? -eq 4 ] # head and tape
}
# of_results CHECK PROGRAM [BUT]: CHECK PROGRAM OPTIONS... for each of them, but for those that take seconds.
of_results() {
	local options bad=0
	results "$2" | grep -v "${3-^$}" >list || [ -n "${3-}" ] || return
	while read -r options; do
		# shellcheck disable=SC2086 # words on purpose
		"$1" "$2" $options </dev/null || { echo "^^^ $2 $options" >&2; bad=1; }
	done <list
	[ "$bad" -eq 0 ]
}
result_full() {
	run --separate-stderr sh -c '"$@" >/dev/full' sh "$@"
	expect_status 1 && expect_stderr_line "^$1: standard output: (write: )?No space left on device$"
}
result_appended() {
	echo precious >kept
	run --separate-stderr sh -c '"$@" >>kept' sh "$@"
	expect_status 0 || return
	[ "$(head -n 1 kept)" = precious ] && [ "$(stat -c %s kept)" -gt 9 ] || complain "what was there is not, or nothing came"
}
result_unwanted() {
	run --separate-stderr sh -c '"$@" >/dev/null' sh "$@"
	expect_status 0
}
full_results() { of_results result_full "$1"; }
appended_results() { of_results result_appended "$1" '^--dry-run\|^--once'; }
unwanted_results() { of_results result_unwanted "$1" '^--dry-run\|^--once'; }

# What a process has open, by one of its names, is nothing that a file could replace.
refuses_open() {
	local options
	outputs "$1" | sed 's/--like run/--chips 512 --for 30s/' | grep 'own\.tok' | grep -v -e --metrics >list || return 0
	while read -r options; do
		# shellcheck disable=SC2086 # words on purpose
		run --separate-stderr "$1" ${options//own.tok//dev/stdout} </dev/null
		expect_status 2 && expect_stdout "" &&
			expect_stderr_line "^$1: /dev/stdout: what is open already is not to be replaced" || return
		# shellcheck disable=SC2086 # words on purpose
		run --separate-stderr sh -c 'echo precious >kept; "$@" >>kept' sh "$1" ${options//own.tok//proc/self/fd/1} </dev/null
		expect_status 2 && [ "$(cat kept)" = precious ] || return
	done <list
}
@test "results on standard output: a full disk is named, nobody's bytes are replaced, and /dev/null takes them" {
	make_inputs
	each full_results
	each appended_results
	each unwanted_results
	each refuses_open
}

# OpenBLAS starts threads when it is loaded, which wait for memory for ever under a tight limit of addresses.
@test "only what computes gradients loads OpenBLAS" {
	command -v ldd >/dev/null || skip "no ldd"
	for program in dl-data dl-init dl-key dl-merge dl-plot dl-run dl-show dl-sync dl-top; do
		! ldd "$DL_BIN/$program" | grep openblas || complain "$program loads it"
	done
}

@test "steps and tokens of options may be counted in k, M, G and T, those of a configuration not" {
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'context 32' >small.conf
	dl-init -r run -c small.conf -P 2 --target-tokens 0.3M --checkpoint-every 1.5k
	run -0 dl-show run/manifest
	expect_stdout_like 'target_tokens +300000'
	expect_stdout_like 'checkpoint_every +1500'
	corpus 20000 | dl-data --holdout 0.1 --block 0.5k -o text
	dl-init -c small.conf -o g0.ckpt
	dl-learn -j 1 -n 0.002k -d text.tok -o a.delta g0.ckpt
	dl-show a.delta | grep -qE '^ *steps +2$'
	dl-eval --sample 0.01k g0.ckpt >sample
	for words in "dl-init -r r --target-steps 1.0005k" "dl-learn -n 1K -d text.tok g0.ckpt" "dl-eval --sample k g0.ckpt"; do
		# shellcheck disable=SC2086 # words on purpose
		run -2 --separate-stderr $words
		expect_stderr_line "is not a whole number such as 1200, 300k or 1\.2M$"
	done
	echo 'decay_steps 1k' >>small.conf
	run -2 --separate-stderr dl-init -c small.conf
	expect_stderr_line "decay_steps: '1k' is not a whole number$"
}
