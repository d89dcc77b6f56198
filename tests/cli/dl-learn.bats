# dl-learn: checkpoint in, inner steps, delta out.

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	corpus 40000 >text.txt
	dl-data --split 2 --block 512 -o text text.txt
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 32' 'batch 4' 'warmup 10' >small.conf
	dl-init -c small.conf --seed 3 >g0.ckpt
	dl-learn -j 1 -n 20 -d text.0.tok g0.ckpt >want.delta
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	ln -s "$BATS_FILE_TMPDIR"/{text.0.tok,text.1.tok,want.delta,small.conf} .
	cp "$BATS_FILE_TMPDIR/g0.ckpt" .
}

# shard N NAME: NAME.tok of N tokens.
shard() {
	corpus "$1" >"$2.txt"
	dl-data -o "$2" "$2.txt"
}

# Waits until FILE has at least N lines.
await_lines() {
	for _ in $(seq 600); do
		[ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ] && return
		sleep 0.05
	done
	echo "no $2 lines in $1" >&2
	return 1
}

@test "with decay_tokens the rate falls with the tokens in the checkpoint and those trained from it" {
	local n=16
	sed 's/^warmup .*/warmup 0/' small.conf >tokens.conf
	echo "decay_tokens $((2 * n * 128))" >>tokens.conf # a step has 4 x 32
	dl-init -c tokens.conf --seed 3 -o t0.ckpt
	dl-learn -q -j 1 -n $n -d text.0.tok --metrics first.tsv t0.ckpt >t.delta
	dl-merge -q -o t1.ckpt t0.ckpt t.delta
	dl-learn -q -j 1 -n $((n + 4)) -d text.0.tok --metrics second.tsv t1.ckpt >/dev/null
	awk -v n=$n 'FNR == 1 { next }
		{ want = 0.001 * (0.1 + 0.9 * 0.5 * (1 + cos(3.14159265358979 * (i < 2 * n ? i : 2 * n) / (2 * n)))); i++ }
		{ far = $5 - want; if (far * far > 1e-18) { print FILENAME, FNR, $5, want; bad = 1 } }
		END { exit bad || i != 2 * n + 4 }' first.tsv second.tsv
}

@test "the checkpoint may be an operand, a dash or nothing, the delta stdout or -o" {
	dl-learn -j 1 -n 20 -d text.0.tok <g0.ckpt >a.delta
	dl-learn -j 1 -n 20 -d text.0.tok - <g0.ckpt >b.delta
	dl-learn -j1 --steps=20 --data text.0.tok -o c.delta < <(cat g0.ckpt)
	expect_same a.delta want.delta
	expect_same b.delta want.delta
	expect_same c.delta want.delta
	expect_no_temporary
}

@test "it is silent when all goes well" {
	run -0 --separate-stderr dl-learn -n 2 -d text.0.tok -s state -o a.delta g0.ckpt
	expect_stdout ""
	expect_no_stderr
}

@test "-v says who learns, and goes on, on what" {
	run -0 --separate-stderr dl-learn -v -n 2 -d text.0.tok -i ann -s state -o a.delta g0.ckpt
	expect_stderr_like "^dl-learn: learner ann, batch 4 x 32 tokens, [0-9]+ samples an epoch, epoch 1"
	expect_stderr_like $'\ndl-learn: 2 steps, 256 tokens, loss 5\\.[0-9]{4} to 5\\.[0-9]{4}, [0-9]+ tokens/s$'
	run -0 --separate-stderr dl-learn -v -n 4 -d text.0.tok -i ann -s state -o a.delta g0.ckpt
	expect_stderr_like "dl-learn: state: going on after 2 steps"
	run -0 --separate-stderr dl-learn -v -n 6 -d text.1.tok -i ann -s state -o a.delta g0.ckpt
	expect_stderr_like "dl-learn: state: from another shard or context: its place does not count"
}

@test "200 steps at once and 100, killed, and 100 give the same bytes" {
	dl-learn -j 1 -n 1000000000 -d text.0.tok -s state --save-every 0.001 --metrics m.tsv g0.ckpt >a.delta 3>&- &
	local pid=$! steps
	await_lines m.tsv 101
	kill -KILL "$pid"
	wait "$pid" || true
	steps=$(($(tail -n 1 m.tsv | cut -f 2) + 100)) # 200, or as many more as it made before it died
	dl-learn -j 1 -n "$steps" -d text.0.tok -s state g0.ckpt >a.delta
	dl-learn -j 1 -n "$steps" -d text.0.tok -s once g0.ckpt >once.delta
	expect_same a.delta once.delta
	expect_same state once
}

@test "steps at once and in pieces give the same bytes" {
	dl-learn -j 1 -n 7 -d text.0.tok -s state g0.ckpt >a.delta
	expect_differ a.delta want.delta
	dl-learn -j 1 -n 20 -d text.0.tok -s state g0.ckpt >a.delta
	expect_same a.delta want.delta
}

@test "a delta that was lost is had again by the same call" {
	dl-learn -j 1 -n 20 -d text.0.tok -s state g0.ckpt | head -c 100 >cut.delta || true
	[ "$(wc -c <cut.delta)" -eq 100 ]
	dl-learn -j 1 -n 20 -d text.0.tok -s state --metrics m.tsv g0.ckpt >a.delta
	expect_same a.delta want.delta
	[ "$(wc -l <m.tsv)" -eq 1 ] # not one step was made again
	run -0 --separate-stderr dl-learn -v -j 1 -n 20 -d text.0.tok -s state -o a.delta g0.ckpt
	expect_stderr_like "^dl-learn: state: has made the 20 steps: the same delta again"
	[[ $stderr != *tokens/s* ]] || complain "a speed without a step"
}

@test "a state with more steps than are asked for answers with all of them, and says so" {
	dl-learn -j 1 -n 20 -d text.0.tok -s state g0.ckpt >a.delta
	run -0 --separate-stderr dl-learn -j 1 -n 7 -d text.0.tok -s state -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: state: has 20 steps already, more than the 7 asked for: the delta is of 20$"
	expect_same a.delta want.delta
	run -0 --separate-stderr dl-learn -q -j 1 -n 7 -d text.0.tok -s state -o a.delta g0.ckpt
	expect_no_stderr
}

# rounds N STEPS RULE: as many rounds of one learner, to N.ckpt.
rounds() {
	rm -f state outer.state*
	cp g0.ckpt "$1.ckpt"
	for _ in $(seq "$1"); do
		dl-learn -j 1 -n "$2" -d text.0.tok -s state "$1.ckpt" >a.delta
		dl-merge --rule "$3" --outer-lr 1 --momentum 0 -s outer.state -o "$1.ckpt" "$1.ckpt" a.delta
	done
}
@test "rounds of one learner, merged with rate 1 and no momentum, are plain training, bit for bit" {
	local rule
	rounds 1 200 rda
	for rule in rda direct; do
		rounds 2 100 $rule
		run -0 dl-show -q --diff 1.ckpt 2.ckpt
		rounds 8 25 $rule
		run -0 dl-show -q --diff 1.ckpt 8.ckpt
	done
	run -1 dl-show -q --diff g0.ckpt 1.ckpt
}

@test "the delta says what it is of" {
	dl-learn -j 1 -n 20 -i ann -d text.0.tok g0.ckpt >a.delta
	run -0 dl-show a.delta
	local line
	for line in "kind +delta" "learner +ann" "steps +20" "tokens +2560" "cursor +80" "context +32" \
		"seed +3" "base +[0-9a-f]{64}" "shard +[0-9a-f]{64}" "loss_first +5\.[0-9]+" "loss_mean +[0-9.]+"; do
		grep -qE "^ *$line\$" <<<"$output" || complain "no line $line"
	done
}

@test "a learner killed again and again answers with the same bytes" {
	local kills pid
	for kills in 1 2 3 4; do
		dl-learn -j 1 -n 60 -d text.0.tok -s state --save-every 0.001 --metrics m.tsv g0.ckpt >a.delta 3>&- &
		pid=$!
		await_lines m.tsv $((8 * kills))
		kill -KILL "$pid" || true
		wait "$pid" || true
	done
	dl-learn -j 1 -n 60 -d text.0.tok -s state g0.ckpt >a.delta
	dl-learn -j 1 -n 60 -d text.0.tok g0.ckpt >b.delta
	expect_same a.delta b.delta
}

@test "killed at any system call that writes, the state is the old one or the new one" {
	command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null || skip "no strace"
	need_plain_build
	local call at
	dl-learn -j 1 -n 4 -d text.0.tok g0.ckpt >whole.delta
	dl-learn -j 1 -n 2 -d text.0.tok -s state0 g0.ckpt >a.delta
	for call in write rename fsync unlink; do
		for at in 1 2 3; do
			cp state0 state
			strace -f -o /dev/null -e "inject=$call:signal=KILL:when=$at" \
				dl-learn -j 1 -n 4 -d text.0.tok -s state --save-every 0.001 g0.ckpt >a.delta || true
			dl-learn -j 1 -n 4 -d text.0.tok -s state g0.ckpt >a.delta
			expect_same a.delta whole.delta
		done
	done
}

@test "SIGTERM and SIGINT end it at the next step with a delta of the steps made" {
	local signal pid steps
	for signal in TERM INT; do
		# A shell that does not attend to its jobs makes them ignore SIGINT: env gives it back.
		env --default-signal=INT dl-learn -j 1 -n 1000000000 -d text.0.tok --metrics m.tsv g0.ckpt \
			>a.delta 2>errors 3>&- &
		pid=$!
		await_lines m.tsv 5
		kill "-$signal" "$pid"
		wait "$pid"
		[ ! -s errors ]
		steps=$(tail -n 1 m.tsv | cut -f 2)
		dl-learn -j 1 -n "$steps" -d text.0.tok g0.ckpt >b.delta
		expect_same a.delta b.delta
		rm m.tsv
	done
}

@test "a time limit ends it with a delta of the steps made" {
	dl-learn -j 1 --for 1s -d text.0.tok --metrics m.tsv g0.ckpt >a.delta
	dl-learn -j 1 -n "$(tail -n 1 m.tsv | cut -f 2)" -d text.0.tok g0.ckpt >b.delta
	expect_same a.delta b.delta
}

@test "no time for a single step is status 4 without a delta" {
	run -4 --separate-stderr dl-learn --for 0.000001 -d text.0.tok -s state -o a.delta g0.ckpt
	expect_stdout ""
	expect_stderr_line "^dl-learn: stopped before the first step: no delta$"
	expect_no_file a.delta state
	expect_no_temporary
}

@test "what makes no sense as an option is a usage error" {
	local bad
	run -2 --separate-stderr dl-learn -d text.0.tok -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: how long\? give -n STEPS, --for TIME or both$"
	run -2 --separate-stderr dl-learn -n 1 -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: train on what\? give -d SHARD$"
	for bad in "-n 0" "-n -1" "-n 1.5" "-n 10x" "-n 99999999999999999999" "--for 0" "--for -1s" "--for 5y" \
		"-n 1 -B 0" "-n 1 -B -4" "-n 1 -T 0" "-n 1 -j 0" "-n 1 -j 1e3" "-n 1 --lr 0" "-n 1 --lr -1" \
		"-n 1 --lr 0.7abc" "-n 1 --lr 0,7" "-n 1 --lr nan" "-n 1 --lr inf" "-n 1 --lr 1e999" "-n 1 -e q4" \
		"-n 1 -e raw" "-n 1 -e" "-n 1 -n 2" "-n 1 -i ../x" "-n 1 -i a/b" "-n 1 -i -rf" "-n 1 --save-every 0" \
		"-n 1 --optimizer sgd" "-n 1 --optimizer" "-n 1 -x" "-n 1 -r RUN" "-n 1 g0.ckpt"; do
		# shellcheck disable=SC2086 # words on purpose
		run --separate-stderr dl-learn -d text.0.tok -o a.delta g0.ckpt $bad
		[ "$status" -eq 2 ] || complain "for $bad"
		expect_stderr_line "^dl-learn: " || complain "for $bad"
		expect_no_file a.delta
	done
	run -2 --separate-stderr dl-learn -d text.0.tok -n 1 --save-every 1m -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: option --save-every goes with -s STATE$"
	run -2 --separate-stderr dl-learn -d text.0.tok -n 1 -s '' -o a.delta g0.ckpt
	expect_stderr_line "the name of a file is empty"
	run -2 --separate-stderr dl-learn -d text.0.tok -n 1 -i "$(printf 'a%.0s' {1..300})" -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: "
}

@test "batch, context and rate may be chosen, and matter" {
	dl-learn -j 1 -n 20 -B 2 -d text.0.tok g0.ckpt >a.delta
	dl-learn -j 1 -n 20 -T 16 -d text.0.tok g0.ckpt >b.delta
	dl-learn -j 1 -n 20 --lr 0.02 -d text.0.tok g0.ckpt >c.delta
	expect_differ a.delta want.delta
	expect_differ b.delta want.delta
	expect_differ c.delta want.delta
	dl-learn -j 1 -n 20 --lr 1e-3 -B 4 -T 32 -d text.0.tok g0.ckpt >d.delta
	expect_same d.delta want.delta
	run -2 --separate-stderr dl-learn -n 1 -T 33 -d text.0.tok g0.ckpt
	expect_stderr_line "^dl-learn: g0.ckpt: a context of 33 tokens is longer than the model's 32$"
}

@test "muon is an option, or a key of the configuration, and its state is its own" {
	dl-learn -j 1 -n 6 --optimizer muon -d text.0.tok -s state -o a.delta g0.ckpt
	dl-learn -j 1 -n 20 --optimizer muon -d text.0.tok -s state -o a.delta g0.ckpt
	dl-learn -j 1 -n 20 --optimizer muon -d text.0.tok -o b.delta g0.ckpt
	expect_same a.delta b.delta
	expect_differ a.delta want.delta
	dl-learn -j 1 -n 20 --optimizer adamw -d text.0.tok -o b.delta g0.ckpt
	expect_same b.delta want.delta
	run -1 --separate-stderr dl-learn -n 21 -d text.0.tok -s state -o c.delta g0.ckpt
	expect_stderr_line "^dl-learn: state: has moments of muon, not of adamw \(--optimizer muon goes on with them\)$"
	dl-show state >shown
	grep -q '^  v.model.embed_tokens.weight ' shown
	run ! grep '^  v.model.layers.*proj' shown
	(cat small.conf && echo 'optimizer muon') >muon.conf
	dl-init -c muon.conf --seed 3 >m0.ckpt
	dl-learn -j 1 -n 6 -d text.0.tok -o a.delta m0.ckpt
	dl-learn -j 1 -n 6 --optimizer muon -d text.0.tok -o b.delta m0.ckpt
	expect_same a.delta b.delta
	dl-merge m0.ckpt a.delta >m1.ckpt
}

@test "--recompute changes memory, not the bytes" {
	dl-learn -j 1 -n 20 --recompute -d text.0.tok -o a.delta g0.ckpt
	expect_same a.delta want.delta
	dl-init -c moe >moe.ckpt
	for j in 1 2; do
		dl-learn -j $j -n 2 -B 3 -T 16 -d text.0.tok -o a.delta moe.ckpt
		dl-learn -j $j -n 2 -B 3 -T 16 --recompute -d text.0.tok -o b.delta moe.ckpt
		expect_same a.delta b.delta
	done
}

# estimate KEY OPTION... - a number of the dry run in JSON.
estimate() {
	local key=$1
	shift
	dl-learn --dry-run --json -d text.0.tok "$@" | jq "$key"
}

# expect_within_a_tenth SAID MEASURED
expect_within_a_tenth() {
	awk -v s="$1" -v m="$2" 'BEGIN { exit !(s > 0.9 * m && s < 1.1 * m) }' || complain "said $1, measured $2"
}

@test "--dry-run says memory and bytes to a tenth of what is then measured, and trains nothing" {
	local options said
	command -v jq >/dev/null || skip "no jq here"
	dl-init -c tiny >tiny.ckpt
	run -0 --separate-stderr dl-learn --dry-run -B 2 -T 64 -d text.0.tok -s state -o x.delta --metrics m.tsv tiny.ckpt
	expect_no_stderr
	expect_stdout_like 'parameters +885888'
	expect_stdout_like 'memory +[0-9.]+ MiB'
	expect_stdout_like 'step +[0-9.]+ s, 128 tokens, [0-9]+ tokens/s'
	expect_no_file state
	expect_no_file x.delta
	expect_no_file m.tsv
	dl-learn -n 24 -B 2 -T 64 -d text.0.tok -s state -o a.delta tiny.ckpt
	expect_within_a_tenth "$(estimate .round.sent tiny.ckpt)" "$(stat -c %s a.delta)"
	expect_within_a_tenth "$(estimate .round.received tiny.ckpt)" "$(stat -c %s tiny.ckpt)"
	expect_within_a_tenth "$(estimate .state tiny.ckpt)" "$(stat -c %s state)"
	[ -z "${DL_SANITIZE:-}" ] || return 0 # memory of its own
	for options in "-j 1" "-j 2" "-j 1 --recompute" "-j 1 --optimizer muon"; do
		# shellcheck disable=SC2086 # words on purpose
		said=$(estimate .memory.total $options -B 4 tiny.ckpt)
		# shellcheck disable=SC2086
		"$DL_TOOLS/dl-measure" dl-learn $options -n 2 -B 4 -d text.0.tok -o a.delta tiny.ckpt 2>measured
		expect_within_a_tenth "$said" $(($(tail -n 1 measured | cut -d' ' -f2) * 1048576))
	done
}

@test "--dry-run of a run directory leaves it as it was" {
	dl-init -r run -c small.conf
	find run | sort >before
	run -0 --separate-stderr dl-learn --dry-run -j 1 -r run -d text.0.tok
	expect_no_stderr
	expect_stdout_like '  state +[0-9.]+ MiB'
	expect_stdout_like '  fragments +[0-9.]+ MiB'
	find run | sort >after
	expect_same before after
	run -2 --separate-stderr dl-learn --dry-run -T 33 -d text.0.tok g0.ckpt
	expect_stderr_line "^dl-learn: a context of 33 tokens is longer than the model's 32$"
	run -2 --separate-stderr dl-learn -n 1 --json -d text.0.tok g0.ckpt
	expect_stderr_line "^dl-learn: option --json goes with --dry-run$"
}

@test "the same number of threads gives the same bytes" {
	dl-learn -j 3 -n 10 -d text.0.tok g0.ckpt >a.delta
	dl-learn -j 3 -n 10 -d text.0.tok g0.ckpt >b.delta
	expect_same a.delta b.delta
}

@test "another locale changes nothing" {
	LC_ALL=de_DE.UTF-8 dl-learn -j 1 -n 20 --lr 0.001 -d text.0.tok --metrics m.tsv g0.ckpt >a.delta
	expect_same a.delta want.delta
	run ! grep , m.tsv
}

@test "learners on two parts of a split answer differently, under different names" {
	dl-learn -v -j 1 -n 5 -d text.0.tok g0.ckpt 2>said.0 >a.delta
	dl-learn -v -j 1 -n 5 -d text.1.tok g0.ckpt 2>said.1 >b.delta
	expect_differ a.delta b.delta
	expect_differ said.0 said.1
	grep -qE 'learner [0-9a-f]{8}-0,' said.0
	grep -qE 'learner [0-9a-f]{8}-1,' said.1
}

@test "--metrics appends one line a step under one head" {
	dl-learn -j 1 -n 3 -d text.0.tok -s state --metrics m.tsv g0.ckpt >a.delta
	dl-learn -j 1 -n 5 -d text.0.tok -s state --metrics m.tsv g0.ckpt >a.delta
	dl-learn -j 1 -n 5 -d text.0.tok --metrics once.tsv g0.ckpt >a.delta
	[ "$(head -n 1 m.tsv | tr '\t' ' ')" = "global_step step tokens loss lr grad_norm tokens_per_s" ]
	[ "$(wc -l <m.tsv)" -eq 6 ]
	[ "$(tail -n 1 m.tsv | cut -f 1-3 | tr '\t' ' ')" = "5 5 640" ]
	cut -f 1-6 m.tsv >have
	cut -f 1-6 once.tsv >want
	expect_same have want
}

@test "a mixture of experts learns, shows its load, merges and writes" {
	local n
	{ cat small.conf; printf '%s\n' 'experts 4' 'router_aux_loss_coef 0.02'; } >moe.conf
	dl-init -c moe.conf >m0.ckpt
	for n in 0 1; do
		dl-learn -j $((n + 1)) -n 40 --lr 0.01 -d text.$n.tok -i m$n --metrics m$n.tsv m0.ckpt >m$n.delta
	done
	[ "$(head -n 1 m0.tsv | cut -f 7-9 | tr '\t' ' ')" = "expert_balance expert_cv expert_least" ]
	awk -F '\t' 'NR == 2 { first = $4 } NR > 1 && ($7 < 1.5 || $7 > 4 || $8 < 0 || $8 > 1 || $9 < 0 || $9 > 1) { bad = 1 }
		END { exit bad || NR != 41 || $4 > first - 0.5 }' m0.tsv
	dl-merge m0.ckpt m0.delta m1.delta >m1.ckpt
	dl-show m1.ckpt | grep -q 'layers.0.block_sparse_moe.experts.3.w2.weight'
	[ "$(dl-eval --json -d text.0.tok m0.ckpt m1.ckpt | sed 's/.*"loss":\([0-9.]*\).*/\1/' | paste -sd ' ' |
		awk '{ print $2 < $1 - 0.5 }')" -eq 1 ]
	[ "$(dl-eval --sample 20 --prompt a m1.ckpt | head -c 21 | wc -c)" -eq 21 ]
	run -1 --separate-stderr dl-learn -n 1 -d text.0.tok --metrics m0.tsv g0.ckpt
	expect_stderr_line '^dl-learn: m0.tsv: is there already and no table of metrics$'
}

@test "metrics that cannot be written cost a warning, not the delta" {
	[ -w /dev/full ] || skip "no /dev/full"
	run -0 --separate-stderr dl-learn -j 1 -n 20 -d text.0.tok --metrics /dev/full -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: /dev/full: write: No space left on device: no more metrics from here$"
	expect_same a.delta want.delta
	run -1 --separate-stderr dl-learn -n 2 -d text.0.tok --metrics missing/m.tsv -o b.delta g0.ckpt
	expect_stderr_line "^dl-learn: missing/m.tsv: cannot open: No such file or directory$"
	cp small.conf precious
	run -1 --separate-stderr dl-learn -n 2 -d text.0.tok --metrics precious -o b.delta g0.ckpt
	expect_stderr_line "^dl-learn: precious: is there already and no table of metrics$"
	expect_same precious small.conf
}

@test "metrics go into a pipe as long as somebody reads, and cost no work" {
	mkfifo lines
	(head -n 2 lines >taken) 3>&- &
	# More than a pipe holds: either the reader has gone before the end, or it is behind.
	run -0 --separate-stderr dl-learn -j 1 -T 1 -B 1 -n 3000 -d text.0.tok --metrics lines -o a.delta g0.ckpt
	wait
	expect_stderr_line "^dl-learn: lines: (write: Broken pipe|its reader does not keep up): no more metrics from here$"
	dl-learn -j 1 -T 1 -B 1 -n 3000 -d text.0.tok -o alone.delta g0.ckpt
	expect_same a.delta alone.delta
	[ "$(cut -f 1 taken | tr '\n' ' ')" = "global_step 1 " ] || [ "$(wc -l <taken)" -eq 2 ]

	# shellcheck disable=SC2217 # that it does not read is what it is for
	sleep 100 <lines 3>&- & # holds it open and reads nothing
	run -0 --separate-stderr dl-learn -j 1 -T 1 -B 1 -n 3000 -d text.0.tok --metrics lines -o b.delta g0.ckpt
	kill "$!"
	expect_stderr_line "^dl-learn: lines: its reader does not keep up: no more metrics from here$"
	[ -s b.delta ]

	run -1 --separate-stderr dl-learn -n 2 -d text.0.tok --metrics lines -o c.delta g0.ckpt
	expect_stderr_line "^dl-learn: lines: a FIFO that nobody reads$"
	expect_no_file c.delta
}

@test "too little memory for matrix products is an error, not a wait" {
	need_plain_build
	# With more threads of its own OpenBLAS already waits while it is loaded.
	run -1 --separate-stderr bash -c 'ulimit -v 150000 && export OPENBLAS_NUM_THREADS=1 &&
		exec timeout -s KILL 60 dl-learn -j 1 -n 2 -d text.0.tok -o a.delta g0.ckpt'
	expect_stderr_line "^dl-learn: out of memory$"
	expect_no_file a.delta
}

@test "smaller encodings are smaller" {
	dl-learn -j 1 -n 5 -d text.0.tok -e f32 g0.ckpt >f32.delta
	dl-learn -j 1 -n 5 -d text.0.tok -e bf16 g0.ckpt >bf16.delta
	[ "$(wc -c <bf16.delta)" -lt "$(wc -c <f32.delta)" ]
	run -2 --separate-stderr dl-learn -n 5 -d text.0.tok -e raw g0.ckpt
	expect_stderr_line "^dl-learn: option --encoding: 'raw' is not f32r, f32 or bf16$"
}

@test "a shard must have one more token than the context" {
	shard 1 one
	shard 32 few
	shard 33 enough
	run -1 --separate-stderr dl-learn -n 1 -d one.tok -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: one.tok: too short: 1 tokens, but one sample of context 32 needs 33$"
	run -1 --separate-stderr dl-learn -n 1 -d few.tok -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: few.tok: too short: 32 tokens, but one sample of context 32 needs 33$"
	dl-learn -n 3 -d enough.tok -o a.delta g0.ckpt
	dl-learn -n 3 -T 31 -d few.tok -o b.delta g0.ckpt
}

@test "a corpus of random bytes is learnt like any other" {
	head -c 3000 /dev/urandom >noise
	dl-data -o noise noise
	run -0 --separate-stderr dl-learn -n 3 -d noise.tok -o a.delta g0.ckpt
	expect_no_stderr
}

@test "memory does not grow with the shard" {
	need_plain_build
	head -c 100000000 /dev/zero | tr '\0' x | dl-data -o large
	dl-measure dl-learn -j 1 -n 20 -d large.tok -o a.delta g0.ckpt 2>words
	read -r _ memory <words
	[ "$memory" -lt 50 ] || complain "took $memory MiB"
}

@test "a shard of another vocabulary than the model's is refused" {
	seq 0 299 | dl-data --ids --vocab 300 -o ids
	run -1 --separate-stderr dl-learn -n 1 -d ids.tok -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: ids.tok: vocabulary of 300, the model's is 256 [(]dl-data --vocab, dl-model[(]5[)][)]$"
	seq 0 199 | dl-data --ids --vocab 200 -o ids
	run -1 --separate-stderr dl-learn -n 1 -d ids.tok -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: ids.tok: vocabulary of 200, the model's is 256 "
	seq 0 199 | dl-data --ids --vocab 256 -o ids # what a padded model is given
	run -0 dl-learn -n 1 -d ids.tok -o a.delta g0.ckpt
}

@test "what is no checkpoint is refused by what it is" {
	run -1 --separate-stderr dl-learn -n 1 -d text.0.tok -o a.delta want.delta
	expect_stderr_line "^dl-learn: want.delta: is a delta, not a checkpoint$"
	run -1 --separate-stderr dl-learn -n 1 -d text.0.tok -o a.delta text.0.tok
	expect_stderr_line "^dl-learn: text.0.tok: is a shard, not a checkpoint$"
	run -1 --separate-stderr dl-learn -n 1 -d g0.ckpt -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: g0.ckpt: is a checkpoint, not a shard$"
	run -1 --separate-stderr dl-learn -n 1 -d text.0.tok -o a.delta small.conf
	expect_stderr_line "^dl-learn: small.conf: "
	run -3 --separate-stderr dl-learn -n 1 -d text.0.tok -o a.delta - </dev/null
	expect_stderr_line "^dl-learn: standard input: "
	run -1 --separate-stderr dl-learn -n 1 -d text.0.tok -o a.delta missing.ckpt
	expect_stderr_line "^dl-learn: missing.ckpt: No such file or directory$"
	run -1 --separate-stderr dl-learn -n 1 -d . -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: .: is a directory$"
	expect_no_file a.delta
}

@test "a checkpoint or shard that was cut or changed is status 3" {
	head -c -1 g0.ckpt >cut.ckpt
	cp g0.ckpt bad.ckpt
	flip_bit bad.ckpt 5000
	cp text.0.tok bad.tok
	flip_bit bad.tok 9000
	run -3 --separate-stderr dl-learn -n 1 -d text.0.tok -s state -o a.delta cut.ckpt
	expect_stderr_line "^dl-learn: cut.ckpt: "
	run -3 --separate-stderr dl-learn -n 1 -d text.0.tok -s state -o a.delta bad.ckpt
	expect_stderr_line "^dl-learn: bad.ckpt: "
	run -3 --separate-stderr dl-learn -n 200 -d bad.tok -s state -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: bad.tok: "
	expect_no_file a.delta state
}

@test "a stranger's checkpoint is status 3 until the key is trusted" {
	dl-key show >owner.pub
	new_home
	run -3 --separate-stderr dl-learn -n 1 -d text.0.tok -o a.delta g0.ckpt
	expect_stderr_line "not trusted"
	dl-learn -n 1 -d text.0.tok --trust owner.pub -o a.delta g0.ckpt
	dl-key trust owner.pub
	dl-learn -n 1 -d text.0.tok -o a.delta g0.ckpt
}

@test "loss or gradient that is not finite stops it, with no delta and the state as it was" {
	dl-learn -j 1 -n 2 -d text.0.tok -s state g0.ckpt >a.delta
	cp state before
	run -1 --separate-stderr dl-learn -j 1 -n 100 --lr 1000 -d text.0.tok -s state -o b.delta g0.ckpt
	expect_stderr_line "^dl-learn: step [0-9]+: (loss|gradient) is not finite: try a lower rate than 1000$"
	expect_no_file b.delta
	expect_same state before
}

@test "a state in use is status 4" {
	command -v flock >/dev/null || skip "no flock"
	run -4 --separate-stderr flock state.lock dl-learn -n 2 -d text.0.tok -s state -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: state(\.lock)?: in use by another process$"
	expect_no_file a.delta state
}

@test "two learners at once on one state: the second is told who has it" {
	dl-learn -j 1 -n 1000000000 -d text.0.tok -s state --metrics m.tsv g0.ckpt >a.delta 3>&- &
	local pid=$!
	await_lines m.tsv 2
	run --separate-stderr dl-learn -n 2 -d text.0.tok -s state -o b.delta g0.ckpt
	kill "$pid"
	wait "$pid"
	expect_status 4
	expect_stderr_line "^dl-learn: state(\.lock)?: in use by process $pid$"
	expect_no_file b.delta
}

@test "the state of another learner, model or run is refused" {
	dl-learn -n 2 -d text.0.tok -i ann -s state -o a.delta g0.ckpt
	cp state before
	run -1 --separate-stderr dl-learn -n 2 -d text.0.tok -i bob -s state -o b.delta g0.ckpt
	expect_stderr_line "^dl-learn: state: is of learner 'ann', not 'bob' \(-i ann goes on with it\)$"
	run -1 --separate-stderr dl-learn -n 2 -d text.0.tok -s state -o b.delta g0.ckpt
	expect_stderr_line "^dl-learn: state: is of learner 'ann', not '[0-9a-f]{8}-0'"
	sed 's/ff .*/ff 48/' small.conf >other.conf
	dl-init -c other.conf --seed 3 >other.ckpt
	run -1 --separate-stderr dl-learn -n 2 -d text.0.tok -i ann -s state -o b.delta other.ckpt
	expect_stderr_line "^dl-learn: state: is of another (run|model) "
	dl-init -c small.conf --seed 4 >other.ckpt
	run -1 --separate-stderr dl-learn -n 2 -d text.0.tok -i ann -s state -o b.delta other.ckpt
	expect_stderr_line "^dl-learn: state: is of another run "
	run -1 --separate-stderr dl-learn -n 2 -d text.0.tok -i ann -s g0.ckpt -o b.delta g0.ckpt
	expect_stderr_line "^dl-learn: g0.ckpt: is a checkpoint, not a state$"
	expect_no_file b.delta
	expect_same state before
}

@test "a state that was cut or changed is status 3 and left alone" {
	dl-learn -n 2 -d text.0.tok -s state -o a.delta g0.ckpt
	head -c -9 state >cut.state
	cp state bad
	flip_bit bad 200001
	run -3 --separate-stderr dl-learn -n 2 -d text.0.tok -s cut.state -o b.delta g0.ckpt
	expect_stderr_line "^dl-learn: cut.state: "
	cp bad before
	run -3 --separate-stderr dl-learn -n 2 -d text.0.tok -s bad -o b.delta g0.ckpt
	expect_stderr_line "^dl-learn: bad: "
	expect_same bad before
	expect_no_file b.delta
}

@test "a state that cannot be kept is noticed before training" {
	mkdir folder
	mkfifo pipe
	run -1 --separate-stderr dl-learn -n 2 -d text.0.tok -s folder -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: folder: not a regular file$"
	run -1 --separate-stderr dl-learn -n 2 -d text.0.tok -s missing/state -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: missing/state.lock: No such file or directory$"
	run -1 --separate-stderr dl-learn -n 2 -d text.0.tok -s pipe -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: pipe: "
	expect_no_file a.delta
}

@test "an unreadable state is refused" {
	need_ordinary_user
	dl-learn -n 2 -d text.0.tok -s state -o a.delta g0.ckpt
	chmod 0 state
	run -1 --separate-stderr dl-learn -n 2 -d text.0.tok -s state -o b.delta g0.ckpt
	expect_stderr_line "^dl-learn: state: Permission denied$"
}

@test "a state behind a symbolic link stays behind it" {
	mkdir far
	ln -s far/state state
	dl-learn -j 1 -n 7 -d text.0.tok -s state -o a.delta g0.ckpt
	[ -L state ]
	[ -f far/state ]
	dl-learn -j 1 -n 20 -d text.0.tok -s state -o a.delta g0.ckpt
	expect_same a.delta want.delta
	expect_no_file state.lock # one lock for all names of it
	[ -f far/state.lock ]
}

@test "a state that can be no file is refused, and nothing is left beside it" {
	local state
	mkfifo pipe
	mkdir dir
	for state in pipe dir /dev/null; do
		run -1 --separate-stderr dl-learn -n 2 -d text.0.tok -s "$state" -o a.delta g0.ckpt
		expect_stderr_line "^dl-learn: $state: not a regular file$"
		expect_no_file a.delta "$state.lock"
	done
}

@test "a full disk under the state costs the state, not the delta" {
	need_small_disk
	local here=$PWD
	run --separate-stderr small_disk 40k dl-learn -j 1 -n 20 -d "$here/text.0.tok" -s state \
		-o "$here/a.delta" "$here/g0.ckpt"
	expect_status 1
	expect_stderr_line "^dl-learn: state: .*No space left on device$"
	expect_same a.delta want.delta
}

@test "a full disk under the delta leaves no delta, and no work is lost" {
	need_small_disk
	local here=$PWD
	run --separate-stderr small_disk 8k dl-learn -j 1 -n 20 -d "$here/text.0.tok" -s "$here/state" \
		-o a.delta "$here/g0.ckpt"
	expect_status 1
	expect_stderr_line "^dl-learn: a.delta: .*No space left on device$"
	dl-learn -j 1 -n 20 -d text.0.tok -s state --metrics m.tsv -o b.delta g0.ckpt
	expect_same b.delta want.delta
	[ "$(wc -l <m.tsv)" -eq 1 ]
}

@test "standard output that is full, closed or a terminal is an error" {
	run -1 --separate-stderr sh -c 'dl-learn -n 2 -d text.0.tok g0.ckpt >/dev/full'
	expect_stderr_line "^dl-learn: standard output: .*No space left on device$"
	run -1 --separate-stderr sh -c 'dl-learn -n 2 -d text.0.tok --metrics m.tsv g0.ckpt >&-'
	expect_stderr_line "^dl-learn: standard output: not open for writing$"
	expect_no_file m.tsv
	command -v script >/dev/null || skip "no script"
	run script -qec 'dl-learn -n 2 -d text.0.tok g0.ckpt' /dev/null </dev/null
	expect_status 2
	expect_stdout_like "a delta would go to a terminal: redirect standard output"
}

@test "the output is never one of the inputs" {
	ln g0.ckpt hard
	ln -s g0.ckpt soft
	cp g0.ckpt before
	dl-learn -n 2 -d text.0.tok -s state -o a.delta g0.ckpt
	local out
	for out in g0.ckpt ./g0.ckpt hard soft text.0.tok; do
		run -2 --separate-stderr dl-learn -n 2 -d text.0.tok -s state -o "$out" g0.ckpt
		expect_stderr_line "^dl-learn: $out: is an input, which the delta would replace$"
		run -2 --separate-stderr dl-learn -n 2 -d text.0.tok --metrics "$out" -o b.delta g0.ckpt
		expect_stderr_line "^dl-learn: $out: is an input, which metrics would replace$"
	done
	# shellcheck disable=SC2094 # that is the question
	run -2 --separate-stderr sh -c 'dl-learn -n 2 -d text.0.tok g0.ckpt >>text.0.tok'
	expect_stderr_line "is an input"
	# shellcheck disable=SC2094 # that is the question
	run -2 --separate-stderr dl-learn -n 2 -d text.0.tok -o g0.ckpt <g0.ckpt
	expect_stderr_line "is an input"
	# shellcheck disable=SC2094 # that is the question
	run -2 --separate-stderr sh -c 'dl-learn -n 2 -d text.0.tok g0.ckpt >>g0.ckpt'
	expect_stderr_line "^dl-learn: a delta would overwrite one of the inputs$"
	expect_same g0.ckpt before
}

@test "delta, state and metrics are three files, also before they are there" {
	mkdir far
	ln -s far/soft soft
	local other
	for other in same ./same far/../same; do
		run -2 --separate-stderr dl-learn -n 2 -d text.0.tok -s same -o $other g0.ckpt
		expect_stderr_line "^dl-learn: $other: is the state, which the delta would replace$"
		run -2 --separate-stderr dl-learn -n 2 -d text.0.tok -s same --metrics $other -o a.delta g0.ckpt
		expect_stderr_line "^dl-learn: $other: is the state, which metrics would replace$"
		run -2 --separate-stderr dl-learn -n 2 -d text.0.tok --metrics same -o $other g0.ckpt
		expect_stderr_line "^dl-learn: $other: is the table of metrics, which the delta would replace$"
	done
	run -2 --separate-stderr dl-learn -n 2 -d text.0.tok -s soft -o far/soft g0.ckpt
	expect_stderr_line "is the state"
	for other in same.lock ./same.prev far/../same.lock; do
		run -2 --separate-stderr dl-learn -n 2 -d text.0.tok -s same -o $other g0.ckpt
		expect_stderr_line "^dl-learn: $other: is the (lock|copy) of the state.*, which the delta would replace$"
		run -2 --separate-stderr dl-learn -n 2 -d text.0.tok -s same --metrics $other -o a.delta g0.ckpt
		expect_stderr_line "^dl-learn: $other: is the (lock|copy) of the state.*, which metrics would replace$"
	done
	expect_no_file same same.lock same.prev far/soft a.delta
	echo precious >same.lock
	run -1 --separate-stderr dl-learn -n 2 -d text.0.tok -s same -o a.delta g0.ckpt
	expect_stderr_line "^dl-learn: same.lock: is no lock file, .*: move it away$"
	[ "$(cat same.lock)" = precious ]
}

@test "an output that cannot be is told before the first step" {
	local out
	mkfifo pipe
	for out in missing/a.delta . pipe /dev/null; do
		run -1 --separate-stderr dl-learn -n 1000000000 -d text.0.tok -o $out --metrics m.tsv g0.ckpt
		expect_stderr_line "^dl-learn: $out: "
	done
	command -v script >/dev/null || skip "no script"
	run script -qec 'dl-learn -n 1000000000 -d text.0.tok -o - g0.ckpt' /dev/null </dev/null
	expect_status 2
	expect_stdout_like "^dl-learn: a delta would go to a terminal: redirect standard output"
}

@test "a reader that goes away ends it quietly" {
	mkfifo pipe
	run -141 --separate-stderr bash -c 'exec 4<>pipe 5>pipe 4<&-; dl-learn -j 1 -n 2 -d text.0.tok g0.ckpt >&5'
	expect_no_stderr
}
