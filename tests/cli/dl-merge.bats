load helper

# The forged world: one run, one model of two tensors.
run_id=$(printf '%032d' 1)
model=$(printf '%064d' 2)

# What tensors of experts are called.
experts=model.layers.0.block_sparse_moe.experts

# base NAME [WORD...]: a checkpoint w = 1 1 1 1, b = 2.
base() {
	local name=$1
	shift
	dl-forge checkpoint run="$run_id" model="$model" step=100 tokens=1000 "$@" w:2x2:1 b:1:2 >"$name"
}
# delta NAME BASE W [WORD...]: a learner called NAME came to the values W of w and did not change b.
delta() {
	local name=$1 from=$2 w=$3
	shift 3
	dl-forge -b "$from" -l delta learner="${name%.delta}" tokens=100 steps=10 "$@" "w:2x2:$w" b:1:2 >"$name"
}
# A base and three good answers.
scene() {
	base g0
	delta a.delta g0 0.5
	delta b.delta g0 0.75,0.5,0.25,0
	delta c.delta g0 1.25,1.5,1,1
}
setup() {
	cd "$BATS_TEST_TMPDIR" || return
	scene
}
# values FILE TENSOR: its values, with blanks between them.
values() {
	dl-dump "$1" | sed -n "s/^$2 //p"
}
expect_values() {
	local have
	have=$(values "$1" "$2")
	[ "$have" = "$3" ] || complain "values of $2 in $1: '$have', expected '$3'"
}
# header FILE KEY
header() {
	dl-dump "$1" | sed -n "s/^$2 //p;/^w/q"
}
identity() {
	dl-show "$1" | sed -n 's/^ *identity *//p'
}
merge() {
	run --separate-stderr dl-merge "$@"
}
# Merges with a bad answer among a and c: it is named, and the result is that of a and c alone.
expect_refused() {
	merge -o with g0 a.delta "$1" c.delta
	expect_status 0 && expect_stdout "" && expect_stderr_line "^dl-merge: $1: refused: $2" &&
		dl-merge -o without g0 a.delta c.delta && expect_same with without
}

@test "one answer, rate 1, no momentum: the learner's values exactly" {
	delta d.delta g0 0.1,0.7,1e-30,-3
	dl-forge -b g0 -e f32r -l delta learner=e tokens=1 steps=1 w:2x2:0.1,0.7,1e-30,-3 b:1:2.0000002 >e.delta
	for rule in rda direct; do
		merge --rule $rule --outer-lr 1 --momentum 0 -o g1 g0 a.delta
		expect_status 0
		expect_values g1 w "0.5 0.5 0.5 0.5"
		dl-merge --rule $rule --outer-lr 1 --momentum 0 -o g1 g0 e.delta
		expect_values g1 w "0.1 0.7 1e-30 -3"
		expect_values g1 b "2.0000002"
	done
}

@test "an outer rate of 0 changes nothing, of one half goes half the way" {
	dl-merge --outer-lr 0 -o g1 g0 a.delta
	expect_values g1 w "1 1 1 1"
	dl-merge --outer-lr 0.5 -o g1 g0 a.delta
	expect_values g1 w "0.75 0.75 0.75 0.75"
}

@test "direct is the mean weighted by tokens and speed" {
	delta a.delta g0 0 tokens=100 steps=10
	delta b.delta g0 1 tokens=300 steps=30
	dl-merge --rule direct --outer-lr 1 -o g1 g0 a.delta b.delta
	expect_values g1 w "0.75 0.75 0.75 0.75"
	delta b.delta g0 1 tokens=100 steps=10
	dl-merge --rule direct --outer-lr 1 -o g1 g0 a.delta b.delta
	expect_values g1 w "0.5 0.5 0.5 0.5"
}

@test "a delta with nearly all of the weight is warned about" {
	delta b.delta g0 0.5 tokens=1000 steps=10
	merge -o g1 g0 a.delta b.delta
	expect_status 0
	expect_stderr_line "^dl-merge: b.delta: has 99 % of the weight, with 1000 tokens in 10 steps: the others hardly count$"
	merge -q -o g1 g0 a.delta b.delta
	expect_no_stderr
	merge -o g1 g0 b.delta
	expect_no_stderr
	delta b.delta g0 0.5 tokens=300 steps=10 # 90 %
	merge -o g1 g0 a.delta b.delta
	expect_no_stderr
}

@test "rda takes the mean direction at the mean length" {
	delta a.delta g0 0,1,1,1 # (1 0 0 0)
	delta b.delta g0 1,-2,1,1 # (0 3 0 0)
	dl-merge --outer-lr 1 -o g1 g0 a.delta b.delta
	# length 2, direction (1 1 0 0) / sqrt 2
	expect_values g1 w "-0.41421357 -0.41421357 1 1"
}

@test "opposite answers cancel, of different length they leave the mean" {
	delta a.delta g0 0
	delta b.delta g0 2
	dl-merge --outer-lr 1 -o g1 g0 a.delta b.delta
	expect_values g1 w "1 1 1 1"
	delta b.delta g0 4
	dl-merge --outer-lr 1 -o g1 g0 a.delta b.delta
	expect_values g1 w "2 2 2 2"
}

@test "an answer without a change counts in the mean" {
	delta a.delta g0 1
	delta b.delta g0 0
	for rule in rda direct; do
		dl-merge --rule $rule --outer-lr 1 -o g1 g0 a.delta b.delta
		expect_values g1 w "0.5 0.5 0.5 0.5"
	done
	dl-merge -o g1 g0 a.delta
	expect_values g1 w "1 1 1 1"
}

@test "embeddings and head are merged directly, by their names" {
	dl-forge checkpoint run="$run_id" model="$model" model.embed_tokens.weight:2:0 lm_head.weight:2:0 \
		other:2:0 >g0
	for i in 0,1 -3,0; do
		dl-forge -b g0 -l delta learner="l$((${#i}))" tokens=1 steps=1 model.embed_tokens.weight:2:$i \
			lm_head.weight:2:$i other:2:$i >"l${#i}"
	done
	dl-merge --outer-lr 1 -o g1 g0 l3 l4
	expect_values g1 model.embed_tokens.weight "-1.5 0.5"
	expect_values g1 lm_head.weight "-1.5 0.5"
	expect_values g1 other "-1.4142135 1.4142135"
}

@test "step, tokens and round go on; other keys are passed on" {
	base g0 round=3 d_model=64 future_key=x
	delta a.delta g0 0.5 tokens=100 steps=10
	delta b.delta g0 0.5 tokens=900 steps=30 # weights 1000 and 27000
	merge -o g1 g0 a.delta b.delta
	expect_status 0
	[ "$(header g1 step)" = 129 ]
	[ "$(header g1 tokens)" = 2000 ]
	[ "$(header g1 round)" = 4 ]
	[ "$(header g1 run)" = "$run_id" ]
	[ "$(header g1 model)" = "$model" ]
	[ "$(header g1 d_model)" = 64 ]
	[ "$(header g1 future_key)" = x ]
	[ -z "$(header g1 learner)" ]
	# Its parent is the checkpoint merged into, and not that one's.
	[ "$(header g1 base)" = "$(identity g0)" ]
	delta a.delta g1 0.5
	dl-merge -o g2 g1 a.delta
	[ "$(header g2 base)" = "$(identity g1)" ]
}

# second BASE STATE RULE RATE MOMENTUM DELTA...: merged by dl-merge and by merge.py, to files next and state.
second() {
	local experts=tokens
	[ "$3" = "${3%+*}" ] || experts=${3#*+}
	# shellcheck disable=SC2154 # of helper
	python3 "$repo/tests/golden/merge.py" "$@" >want
	dl-merge -s state --rule "${3%+*}" --expert-weights "$experts" --outer-lr "$4" --momentum "$5" -o next "$1" "${@:6}"
	python3 "$repo/tests/golden/merge.py" next state >have
	expect_same have want
}
@test "a second merge, written from dl-outer(5) alone, has the same bits" {
	local i enc=(f32 f32r bf16) shapes=(model.embed_tokens.weight:20x3 w:3000 b:7 zero:5)
	command -v python3 >/dev/null && command -v zstd >/dev/null || skip "no python3 or no zstd program"
	export PYTHONDONTWRITEBYTECODE=1
	dl-forge checkpoint run="$run_id" model="$model" step=7 "${shapes[@]/%/:normal,1,1}" >g0
	for round in 0 1; do
		for i in 0 1 2; do
			dl-forge -b g$round -e "${enc[i]}" delta learner=l$i tokens=$((100 + i)) steps=$((10 + i)) \
				"${shapes[0]}:normal,1$i,0.1" "${shapes[1]}:normal,2$i,0.01" \
				"${shapes[2]}:1e-3,$i,-$i" "${shapes[3]}:0" >d$i
		done
		[ $round = 0 ] && prior=- || prior=prior
		second "g$round" "$prior" rda 0.7 0.9 d0 d1 d2
		cp next g$((round + 1))
		cp state prior
	done
	rm state*
	dl-forge -b g0 -e f32r -l delta learner=a tokens=1 steps=1 "${shapes[@]/%/:0.1,0.7}" >d0
	dl-forge -b g0 delta learner=b tokens=9 steps=2 "${shapes[@]/%/:normal,5,1}" >d1
	rm -f state*
	second g0 - rda 1 0 d0
	rm state*
	second g0 - direct 0.3 0.5 d0 d1
	rm state*
	shapes=("$experts.0.w1.weight:30" "$experts.0.w2.weight:7" "$experts.1.w1.weight:9" w:11)
	dl-forge checkpoint run="$run_id" model="$model" step=7 "${shapes[@]/%/:normal,1,1}" >g0
	for i in 0 1 2; do
		dl-forge -b g0 delta learner=l$i tokens=$((100 + i)) steps=$((10 + i)) routed="$((70 - 20 * i)) 0" \
			"${shapes[0]}:normal,1$i,0.1" "${shapes[1]}:normal,2$i,0.1" "${shapes[2]}:normal,3$i,0.1" \
			"${shapes[3]}:normal,4$i,0.1" >d$i
	done
	second g0 - rda+routed 0.7 0.9 d0 d1 d2
}

@test "experts count by the tokens routed to them where that is asked for and all say it" {
	local words=("$experts.0.w1.weight:1" "$experts.1.w1.weight:1" w:1)
	dl-forge checkpoint run="$run_id" model="$model" step=100 "${words[@]/%/:0}" >g0
	answer() { # NAME VALUE WORD...
		dl-forge -b g0 delta learner="${1%.delta}" tokens=100 steps=10 "${@:3}" "${words[@]/%/:$2}" >"$1"
	}
	answer a.delta 1 routed='0 0'
	answer b.delta 3 routed='20 0'
	answer c.delta 3
	expect_merged() { # E0 E1 W OPTION...
		merge --rule direct --outer-lr 1 -o g1 "${@:4}"
		expect_status 0
		expect_values g1 "$experts.0.w1.weight" "$1"
		expect_values g1 "$experts.1.w1.weight" "$2" # of which nobody had a token
		expect_values g1 w "$3"
	}
	expect_merged -2 -2 -2 g0 a.delta b.delta
	cp g1 plain
	expect_merged -2 -2 -2 --expert-weights tokens g0 a.delta b.delta
	expect_same g1 plain
	expect_merged -3 -2 -2 --expert-weights routed g0 a.delta b.delta
	expect_no_stderr
	[ "$(header g1 merge)" != "$(header plain merge)" ]
	expect_merged -2 -2 -2 --expert-weights routed -v g0 a.delta c.delta
	expect_stderr_like '^dl-merge: g0: not all answers say which experts their tokens went to: all tensors are weighed by tokens
'
	for bad in '20' '20 0 0' '20 101' '20 x'; do
		answer bad.delta 5 routed="$bad"
		merge --rule direct --outer-lr 1 -o g1 g0 a.delta b.delta bad.delta
		expect_status 0
		expect_stderr_line "^dl-merge: bad.delta: refused: key 'routed': "
		expect_values g1 w -2
	done
}

@test "any order of answers and any number of threads: the same bytes" {
	dl-merge -j 1 -s s1 -o one g0 a.delta b.delta c.delta
	dl-merge -j 5 -s s2 -o two g0 c.delta a.delta b.delta
	expect_same one two
	expect_same s1 s2
}

@test "momentum is Nesterov's and is kept in the state" {
	# v = 0.5; w = 1 - 0.5 (0.5 + 0.5 0.5) = 0.625; then v = 0.25 + 0.625, w = 0.625 - 0.5 (0.625 + 0.4375)
	merge --outer-lr 0.5 --momentum 0.5 -s state -o g1 g0 a.delta
	expect_status 0
	expect_no_stderr
	expect_values g1 w "0.625 0.625 0.625 0.625"
	expect_values state w "0.5 0.5 0.5 0.5"
	[ "$(header g1 merge)" = "$(header state merge)" ]
	delta a.delta g1 0
	dl-merge --outer-lr 0.5 --momentum 0.5 -s state -o g2 g1 a.delta
	expect_values g2 w "0.09375 0.09375 0.09375 0.09375"
	expect_values state w "0.875 0.875 0.875 0.875"
	expect_no_temporary
}

@test "momentum is 0 without a state, 0.9 with one" {
	dl-merge --outer-lr 1 -o g1 g0 a.delta
	expect_values g1 w "0.5 0.5 0.5 0.5"
	dl-merge --outer-lr 1 -s state -o g1 g0 a.delta
	expect_values g1 w "0.05 0.05 0.05 0.05"
	dl-merge --outer-lr 1 --momentum 0.9 -o g1 g0 a.delta
	expect_values g1 w "0.05 0.05 0.05 0.05"
}

@test "a round done twice gives the same bytes, also after the first" {
	dl-merge -s state -o g1 g0 a.delta b.delta
	delta a.delta g1 0.25
	dl-merge -s state -o g2 g1 a.delta
	cp state state2
	for _ in 1 2; do
		merge -s state -o again g1 a.delta
		expect_status 0
		expect_same again g2
		expect_same state state2
	done
	merge -v -s state -o again g1 a.delta
	expect_stderr_like "state: this round was merged before, and is merged again"
	# A third round goes on from it.
	delta a.delta g2 0.2
	merge -s state -o g3 g2 a.delta
	expect_status 0
}

@test "the first round done twice starts from zero momentum again" {
	dl-merge -s state -o g1 g0 a.delta b.delta
	dl-merge -s state -o again g0 a.delta b.delta
	expect_same g1 again
	# ... and with more answers.
	dl-merge -s state -o more g0 a.delta b.delta c.delta
	dl-merge -s fresh -o new g0 a.delta b.delta c.delta
	expect_same more new
	expect_same state fresh
}

@test "a round is done twice also where the state is behind a symbolic link" {
	mkdir far
	ln -s far/state state
	dl-merge -s state -o g1 g0 a.delta
	delta a.delta g1 0.25
	dl-merge -s state -o g2 g1 a.delta
	dl-merge -s state -o again g1 a.delta
	expect_same again g2
	[ -L state ]
	[ -f far/state.prev ]
	expect_no_file state.prev state.lock
}

@test "a crash between state and checkpoint is mended by merging again" {
	dl-merge -s state -o g1 g0 a.delta
	cp state state1
	delta a.delta g1 0.25
	delta b.delta g1 0.3
	run dl-merge -s state g1 a.delta >/dev/full
	run sh -c 'dl-merge -s state g1 a.delta >/dev/full'
	expect_status 1
	dl-merge -s state -o g2 g1 a.delta b.delta
	dl-merge -s state1 -o want g1 a.delta b.delta
	expect_same g2 want
	expect_same state state1
}

# inject FAULT CALL...: a second round over and over, with a fault at the first, second, ... of each system
# call until it is not hit any more. However that ends, there is no checkpoint or a complete one, and doing
# the round again gives what it would have given.
inject() {
	local fault=$1 call n ended
	shift
	need_plain_build # the leak sanitizer does not work under strace
	strace -f -o /dev/null true 2>/dev/null || skip "strace cannot trace here"
	dl-merge -s state -o g1 g0 a.delta b.delta
	delta a.delta g1 0.25
	cp state state1
	cp state want.state
	dl-merge -s want.state -o want g1 a.delta
	for call; do
		for ((n = 1; n < 50; n++)); do
			rm -f g2 state.prev
			cp state1 state
			ended=0
			strace -f -o /dev/null -e "trace=$call" -e "inject=$call:$fault:when=$n" \
				dl-merge -j 1 -s state -o g2 g1 a.delta || ended=$?
			[ ! -e g2 ] || expect_same g2 want
			[ "$ended" -ne 0 ] || break
			dl-merge -s state -o g2 g1 a.delta
			expect_same g2 want
			expect_same state want.state
		done
		[ "$n" -gt 1 ] || complain "$call was never hit"
	done
}
@test "killed at any call that changes a file: mended by merging again" {
	inject signal=SIGKILL write fsync link,linkat rename,renameat unlink,unlinkat close
}
@test "no space at any call that writes: told, and mended by merging again" {
	inject error=ENOSPC write fsync rename,renameat
	expect_no_temporary
}

@test "a state of another round, run or model is refused with status 3" {
	dl-merge -s state -o g1 g0 a.delta
	delta a.delta g1 0.25
	cp state old
	dl-merge -s state -o g2 g1 a.delta
	delta a.delta g2 0.2
	cp old keep
	merge -s old g2 a.delta
	expect_status 3
	expect_stdout ""
	expect_stderr_line "^dl-merge: old: goes with another checkpoint, of round 1, not with g2 of round 2; it was left by another merge: repeat that merge with the deltas g2 was made from, or give the checkpoint that merge wrote$"
	expect_same old keep
	base other run="$(printf '%032d' 7)"
	delta d.delta other 0.5
	merge -s old other d.delta
	expect_status 3
	expect_stderr_line "^dl-merge: old: is of another run than other$"
	base other model="$(printf '%064d' 7)"
	delta d.delta other 0.5
	merge -s old other d.delta
	expect_status 3
	expect_stderr_line "^dl-merge: old: is of another model than other$"
}

@test "a round done twice without the state before it is refused" {
	dl-merge -s state -o g1 g0 a.delta
	delta a.delta g1 0.25
	dl-merge -s state -o g2 g1 a.delta
	rm state.prev
	merge -s state g1 a.delta
	expect_status 3
	expect_stderr_line "^dl-merge: state.prev: is not the state before state, which g1 needs to be merged again$"
}

@test "a later round without its state warns and starts from zero momentum" {
	dl-merge -o g1 g0 a.delta
	delta a.delta g1 0.25
	merge -s state --outer-lr 1 --momentum 0 -o g2 g1 a.delta
	expect_status 0
	expect_stderr_line "^dl-merge: state: not there, though g1 is of round 1: momentum starts from zero$"
	expect_values g2 w "0.25 0.25 0.25 0.25"
}

@test "a file that is no state is refused and left alone" {
	cp a.delta state
	merge -s state g0 a.delta
	expect_status 1
	expect_stderr_line "^dl-merge: state: is a delta, not an outer$"
	expect_same state a.delta
	head -c 300 a.delta >state
	merge -s state g0 a.delta
	expect_status 3
	expect_stderr_like "^dl-merge: state: .*truncated"
	merge -s g0 g0 a.delta
	expect_status 1
	expect_stderr_like "g0: is a checkpoint"
	local other
	for other in new ./new; do
		merge -s new -o $other g0 a.delta
		expect_status 2
		expect_stderr_line "^dl-merge: $other: is the state, which the checkpoint would replace$"
		expect_no_file new
	done
}

@test "the checkpoint takes no name of the state's own files, and what has the name of its lock is spared" {
	mkdir far
	ln -s far/state soft
	local other
	for other in state.lock ./state.prev; do
		merge -s state -o $other g0 a.delta
		expect_status 2
		expect_stderr_line "^dl-merge: $other: is the (lock|copy) of the state( before)?, which the checkpoint would"
	done
	merge -s soft -o far/state.lock g0 a.delta
	expect_status 2
	# shellcheck disable=SC2094 # that is the question
	run -2 --separate-stderr sh -c 'dl-merge -s state g0 a.delta >>state.lock'
	expect_stderr_line "^dl-merge: standard output: is the lock of the state"
	[ ! -s state.lock ] && rm state.lock
	expect_no_file state state.prev far/state
	cp g0 state.lock
	merge -s state -o g1 g0 a.delta
	expect_status 1
	expect_stderr_line "^dl-merge: state.lock: is no lock file, .*: move it away$"
	expect_same state.lock g0
	echo 12 eggs >state.lock
	merge -s state -o g1 g0 a.delta
	expect_status 1
	expect_stderr_line "^dl-merge: state.lock: is no lock file, .*: move it away$"
	[ "$(cat state.lock)" = "12 eggs" ]
}

@test "a state in use is status 4" {
	exec 4>state.lock
	flock 4
	merge -s state -o g1 g0 a.delta
	exec 4>&-
	expect_status 4
	expect_stderr_line "^dl-merge: state(\.lock)?: in use by another process$"
	expect_no_file g1 state
}

@test "not a number, infinite, or absurd: refused with tensor and index" {
	for x in nan inf -inf 1e38; do
		dl-forge -b g0 delta learner=bad tokens=100 steps=10 "w:2x2:0,0,$x,0" b:1:0 >bad.delta
		expect_refused bad.delta "tensor 'w' element 2 is [-+.a-z0-9]+$"
	done
	dl-forge -b g0 -e f32r delta learner=bad tokens=100 steps=10 w:2x2:0 b:1:nan >bad.delta
	expect_refused bad.delta "tensor 'b' element 0 is -?nan$"
}

@test "an answer ten thousand times as long as the others is refused, unless it is allowed" {
	delta bad.delta g0 -9999
	expect_refused bad.delta "norm 2e\+04, where the median is 1"
	merge --outlier 0 -o g1 g0 a.delta bad.delta c.delta
	expect_status 0
	expect_no_stderr
}

@test "zero steps or zero tokens: refused; nothing else: status 1 and nothing written" {
	delta bad.delta g0 0.5 steps=0
	expect_refused bad.delta "0 steps on 100 tokens$"
	delta bad.delta g0 0.5 tokens=0
	expect_refused bad.delta "10 steps on 0 tokens$"
	delta worse.delta g0 0.5 steps=0 tokens=0
	merge -s state -o g1 g0 bad.delta worse.delta
	expect_status 1
	expect_stderr_like "dl-merge: no delta was accepted \(0 of 2\)$"
	expect_no_file g1 state
	merge g0 bad.delta worse.delta
	expect_status 1
	expect_stdout ""
	dl-merge -s state -o g1 g0 a.delta
	cp state before
	delta bad.delta g1 0.5 steps=0
	merge -s state -o g2 g1 bad.delta
	expect_status 1
	expect_same state before
	expect_no_file g2
	expect_no_temporary
}

@test "another base, run, model, or layout: refused" {
	base other step=99
	delta bad.delta other 0.5
	expect_refused bad.delta "made from [0-9a-f]{16}, not from [0-9a-f]{16}$"
	delta bad.delta g0 0.5 run="$(printf '%032d' 9)"
	expect_refused bad.delta "of run 0000000000000000, not 0000000000000000$"
	delta bad.delta g0 0.5 model="$(printf '%064d' 9)"
	expect_refused bad.delta "of model "
	dl-forge -b g0 delta learner=bad tokens=1 steps=1 b:1:0 w:2x2:0 >bad.delta
	expect_refused bad.delta "tensor 0 is 'b', not 'w'$"
	dl-forge -b g0 delta learner=bad tokens=1 steps=1 v:2x2:0 b:1:0 >bad.delta
	expect_refused bad.delta "tensor 0 is 'v', not 'w'$"
	dl-forge -b g0 delta learner=bad tokens=1 steps=1 w:4:0 b:1:0 >bad.delta
	expect_refused bad.delta "tensor 'w' has shape 4, not 2x2$"
	dl-forge -b g0 delta learner=bad tokens=1 steps=1 w:2x2:0 >bad.delta
	expect_refused bad.delta "1 tensors, not 2$"
	expect_refused g0 "is a checkpoint, not a delta$"
}

@test "the answer of an earlier round is refused" {
	dl-merge -o g1 g0 a.delta
	delta b.delta g1 0.5
	merge -o g2 g1 a.delta b.delta
	expect_status 0
	expect_stderr_line "^dl-merge: a.delta: refused: of round 0, this is round 1$"
	merge g1 a.delta
	expect_status 3
}

@test "two answers of one learner: the one with more tokens counts, in any order" {
	delta long.delta g0 0.1 learner=b tokens=200
	expect_refused_b() {
		merge -o with g0 "$@"
		expect_status 0
		expect_stderr_line "^dl-merge: b.delta: refused: learner 'b' also sent long.delta$"
		dl-merge -o without g0 a.delta long.delta
		expect_same with without
	}
	expect_refused_b a.delta b.delta long.delta
	expect_refused_b long.delta a.delta b.delta
	cp b.delta copy.delta
	merge -o with g0 a.delta b.delta copy.delta
	expect_status 0
	expect_stderr_line "^dl-merge: copy.delta: refused: the same as b.delta$"
	merge -o with g0 a.delta a.delta
	expect_stderr_line "^dl-merge: a.delta: refused: the same as a.delta$"
}

@test "a stranger, a revoked key, a name that is another's: refused" {
	dl-key gen -o anna
	dl-forge -k anna.key -b g0 -l delta learner=x tokens=100 steps=10 w:2x2:0.5 b:1:2 >x.delta
	expect_refused x.delta "signed by [0-9a-f]{32}, which is not trusted \(there: dl-key show >FILE.pub; here: dl-key trust FILE.pub\)$"
	merge g0 x.delta
	expect_status 3
	expect_stdout ""
	dl-key trust -n bob anna.pub
	merge -o g1 g0 a.delta x.delta
	expect_status 0
	expect_no_stderr
	dl-forge -b g0 -l delta learner=bob tokens=100 steps=10 w:2x2:0.5 b:1:2 >y.delta
	expect_refused y.delta "says it is of 'bob', but is signed by [0-9a-f]{32}$"
	dl-key revoke bob
	expect_refused x.delta "signed by .*revoked"
}

@test "a learner's name is a name, not a path" {
	local name
	for name in ../../etc/x a/b -rf .x $'a\tb' "$(printf 'x%.0s' {1..65})"; do
		dl-forge -b g0 delta learner="$name" tokens=1 steps=1 w:2x2:0 b:1:0 >bad.delta
		expect_refused bad.delta ".*name"
	done
}

@test "a base or state of a stranger is status 3" {
	dl-key gen -o carl
	dl-forge -k carl.key checkpoint run="$run_id" model="$model" w:2x2:1 b:1:2 >foreign
	merge foreign a.delta
	expect_status 3
	expect_stderr_line "^dl-merge: foreign: signed by .* not trusted"
}

@test "cut, empty, lengthened, spliced: each refused, the others merged" {
	: >empty.delta
	expect_refused empty.delta ""
	head -c -1 b.delta >cut.delta
	expect_refused cut.delta ".*truncated"
	head -c 100 b.delta >cut.delta
	expect_refused cut.delta ".*truncated"
	(cat b.delta && printf x) >longer.delta
	expect_refused longer.delta "truncated or damaged: no trailer at its end$"
	cat b.delta c.delta >both.delta
	expect_refused both.delta ".*"
	head -c 3000 /dev/urandom >random.delta
	expect_refused random.delta ".*"
}

# flips FILE COMMAND...: every 97th bit of the file once, as bad.delta, judged by the command
flips() {
	local file=$1 size bit
	shift
	size=$(stat -c %s "$file")
	for bit in $(seq 0 97 $((8 * size - 1))); do
		cp "$file" bad.delta
		flip_bit bad.delta "$bit"
		"$@" || complain "bit $bit was not noticed"
	done
}
merges_without() {
	merge -o with g0 a.delta bad.delta
	expect_status 0 && expect_stderr_line "^dl-merge: bad.delta: refused: " && expect_same with without
}
refuses() {
	merge -o g2 "$@"
	expect_stderr_line "^dl-merge: bad.delta: " && expect_no_file g2 || return 1
	expect_status 3 2>/dev/null || expect_status 1
}
@test "a flipped bit anywhere in an answer is refused" {
	dl-merge -o without g0 a.delta
	flips b.delta merges_without
}
@test "a flipped bit anywhere in base or state is refused" {
	flips g0 refuses bad.delta a.delta
	dl-merge -s state -o g1 g0 a.delta
	delta a.delta g1 0.25
	flips state refuses -s bad.delta g1 a.delta
}
@test "dl-show and dl-merge say the same of a damaged frame" {
	dl-forge checkpoint run="$run_id" model="$model" w:3000:normal,1,1 >g0
	dl-forge -b g0 -l delta learner=a tokens=1 steps=1 w:3000:normal,2,1 >bad.delta
	printf '\377' | dd of=bad.delta bs=1 seek="$(($(stat -c %s bad.delta) / 2))" conv=notrunc status=none
	run --separate-stderr dl-show --verify bad.delta
	expect_stderr_line "^dl-show: bad.delta: frame 1: seal does not verify$"
	merge g0 bad.delta
	expect_status 3
	expect_stderr_like "refused: frame 1: seal does not verify"
}

@test "every byte that is cut off is missed" {
	local size cut
	size=$(stat -c %s b.delta)
	dl-merge -o without g0 a.delta
	for cut in $(seq 1 37 "$size"); do
		head -c -"$cut" b.delta >bad.delta
		merges_without || complain "$cut bytes were not missed"
	done
}

@test "a missing file or a directory: refused, the others merged" {
	expect_refused nothing.delta "No such file or directory$"
	mkdir dir.delta
	expect_refused dir.delta "is a directory$"
	merge g0 nothing.delta
	expect_status 1
	expect_stdout ""
	merge nothing a.delta
	expect_status 1
	expect_stderr_line "^dl-merge: nothing: No such file or directory$"
}

@test "inputs from pipes, in any place" {
	dl-merge -o want g0 a.delta b.delta
	merge -o g1 <(cat g0) <(cat a.delta) <(cat b.delta)
	expect_status 0
	expect_same g1 want
	dl-merge - a.delta b.delta <g0 >g1
	expect_same g1 want
	dl-merge g0 a.delta - <b.delta >g1
	expect_same g1 want
	merge g0 - -
	expect_status 2
	expect_stderr_line "standard input can be only one of the files$"
}

@test "a pipe that is cut, endless or silent refuses only itself" {
	merge -o g1 --wait 1s g0 a.delta <(head -c 200 b.delta) <(cat /dev/zero) <(exec sleep 30)
	expect_status 0
	# shellcheck disable=SC2154 # set by run --separate-stderr
	[ "$(wc -l <<<"$stderr")" -eq 3 ]
	expect_stderr_like "refused: .*truncated"
	expect_stderr_like "refused: longer than [0-9]+ bytes"
	expect_stderr_like "refused: not complete after 1 seconds"
	dl-merge -o want g0 a.delta
	expect_same g1 want
}

@test "a quorum that is not reached: status 4, nothing written, everybody named" {
	merge -K 3 -s state -o g1 g0 a.delta b.delta nothing.delta
	expect_status 4
	expect_stdout ""
	[ "$stderr" = "dl-merge: nothing.delta: refused: No such file or directory
dl-merge: no quorum: 2 of 3 deltas accepted, 3 wanted" ]
	expect_no_file g1 state state.prev
	expect_no_temporary
	merge -K 5 g0 a.delta b.delta
	expect_status 4
	expect_stdout ""
	merge -K 2 -o g1 g0 a.delta b.delta
	expect_status 0
}

@test "--strict: any refusal fails, with the status of its kind" {
	merge --strict -o g1 g0 a.delta nothing.delta
	expect_status 1
	expect_stderr_like "dl-merge: 1 of 2 deltas refused, and none may be$"
	expect_no_file g1
	head -c 200 b.delta >cut.delta
	merge --strict g0 a.delta cut.delta
	expect_status 3
	expect_stdout ""
	merge --strict -o g1 g0 a.delta b.delta
	expect_status 0
}

# expect_row N PATTERN: line N of the file report, tabs as blanks.
expect_row() {
	tr '\t' ' ' <report | sed -n "$1p" | grep -qE "^$2$" || complain "row $1 is not: $2" "$(cat report)"
}
@test "--report tells each answer's part" {
	head -c 200 c.delta >cut.delta
	delta zero.delta g0 0.5 steps=0
	delta b.delta g0 0.5,1,1,1 tokens=200
	dl-merge --report -q -o g1 g0 a.delta cut.delta b.delta zero.delta >report 2>words
	[ ! -s words ]
	expect_row 1 "file learner signer tokens steps weight norm cosine verdict why"
	expect_row 2 "a.delta a [^ ]+ 100 10 1000 1 0\.[0-9]+ accepted -"
	expect_row 3 "cut.delta - - 0 0 0 - - not-authentic .+"
	expect_row 4 "b.delta b [^ ]+ 200 10 4000 0.5 0\.[0-9]+ accepted -"
	expect_row 5 "zero.delta zero [^ ]+ 100 0 0 - - zero-steps 0 steps on 100 tokens"
	dl-merge --report -o g1 g0 a.delta >report
	expect_row 2 ".* 1 1 accepted -" # of one answer the cosine is 1
}

@test "--report after an early stop calls nothing accepted that was not read" {
	delta bad.delta g0 nan
	local how
	for how in "-K 3" --strict; do
		# shellcheck disable=SC2086 # words on purpose
		run --separate-stderr dl-merge --report $how -o g1 g0 bad.delta b.delta nothing.delta
		echo "$output" >report
		expect_row 2 "bad.delta bad [^ ]+ 100 10 - - - not-checked -"
		expect_row 3 "b.delta b [^ ]+ 100 10 - - - not-checked -"
		expect_row 4 "nothing.delta - - 0 0 0 - - unreadable .+"
	done
	# Once the values are read, it is known.
	run --separate-stderr dl-merge --report -K 2 -o g1 g0 bad.delta b.delta
	expect_status 4
	echo "$output" >report
	expect_row 2 "bad.delta bad [^ ]+ 100 10 0 - - not-finite tensor 'w' .+"
	expect_row 3 "b.delta b [^ ]+ 100 10 1000 [0-9.]+ - accepted -"
}

@test "a dry run judges and reports, and writes nothing at all" {
	delta bad.delta g0 nan
	for where in "-o g1 -s state" ""; do
		# shellcheck disable=SC2086 # options are words
		merge -n $where g0 a.delta bad.delta
		expect_status 0
		expect_stderr_line "^dl-merge: bad.delta: refused: tensor 'w' element 0"
		echo "$output" >report
		expect_row 2 "a.delta a [^ ]+ 100 10 1000 1 - accepted -"
		expect_row 3 "bad.delta bad [^ ]+ 100 10 0 - - not-finite .+"
	done
	merge -n -K 2 g0 a.delta bad.delta
	expect_status 4
	expect_no_file g1 state state.lock
	expect_no_temporary
	# A state that does not fit is found, too; one that fits is left alone.
	dl-merge -s state -o g1 g0 a.delta
	delta b.delta g1 0.5
	cp state before
	merge -n -s state g1 b.delta
	expect_status 0
	expect_same state before
	expect_no_file state.prev
	new_home
	merge -n g0 a.delta
	expect_status 3
	[ -z "$(find "$HOME" -type f)" ]
}

@test "--report names the key of a stranger" {
	dl-key gen -o dora
	dl-forge -k dora.key -b g0 -l delta learner=x tokens=100 steps=10 w:2x2:0.5 b:1:2 >x.delta
	dl-merge --report -q -o g1 g0 a.delta x.delta >report
	print=$(sed -n '3s/.*signed by \([0-9a-f]*\), which.*/\1/p' report)
	expect_row 3 "x.delta - $print 0 0 0 - - not-authentic .*"
	[ "${#print}" -eq 32 ]
}

@test "the report goes to standard error when the checkpoint goes to standard output" {
	dl-merge -o want g0 a.delta
	dl-merge --report g0 a.delta >g1 2>report
	expect_same g1 want
	[ "$(wc -l <report)" -eq 2 ]
	run --separate-stderr dl-merge --report -K 3 g0 a.delta nothing.delta
	expect_status 4
	expect_stdout ""
	expect_stderr_like "nothing.delta"$'\t'.*unreadable
}

@test "deltas in other encodings" {
	for enc in f32 f32r bf16; do
		dl-forge -e $enc -b g0 delta learner=$enc tokens=100 steps=10 w:2x2:0.5 b:1:0.25 >$enc.delta
	done
	dl-merge --outer-lr 1 -o g1 g0 f32.delta f32r.delta bf16.delta
	expect_values g1 w "0.5 0.5 0.5 0.5"
	expect_values g1 b "1.75"
}

@test "the output may be one of the inputs, also through links" {
	dl-merge -o want g0 a.delta b.delta
	cp g0 base
	ln -s base symbolic
	ln base hard
	merge -o base base a.delta b.delta
	expect_same base want
	expect_same hard g0
	cp g0 base
	merge -o symbolic base a.delta b.delta
	expect_status 0
	[ -L symbolic ]
	expect_same base want
	cp a.delta d.delta
	merge -o d.delta g0 d.delta b.delta
	expect_same d.delta want
}

@test "standard output that is an input is refused and left alone" {
	cp g0 base
	ln -s base link
	run --separate-stderr sh -c 'dl-merge base a.delta 1<>base'
	expect_status 2
	expect_stderr_line "^dl-merge: a checkpoint would overwrite one of the inputs$"
	run --separate-stderr sh -c 'dl-merge link a.delta >>base'
	expect_status 2
	expect_same base g0
}

@test "a checkpoint is not written to a terminal" {
	command -v script >/dev/null || skip "no script(1)"
	run script -qec "dl-merge g0 a.delta" /dev/null </dev/null
	expect_status 2
	expect_stdout_like "a checkpoint would go to a terminal"
}

@test "a full disk: status 1, old files untouched" {
	run --separate-stderr sh -c 'dl-merge g0 a.delta >/dev/full'
	expect_status 1
	expect_stderr_line "^dl-merge: standard output: .*No space left on device$"
	need_small_disk
	dl-forge checkpoint run="$run_id" model="$model" w:300000:normal,1,1 >big
	dl-forge -b big delta learner=a tokens=1 steps=1 w:300000:normal,2,1 >big.delta
	here=$PWD
	run --separate-stderr small_disk 512k sh -c "echo old >g1; dl-merge -o g1 $here/big $here/big.delta
		status=\$?; cat g1; find . -name '.*.tmp'; exit \$status"
	expect_status 1
	expect_stdout old
	expect_stderr_line "^dl-merge: g1: .*No space left on device$"
}

@test "an answer that turns out bad late is taken out of what was written" {
	# Two groups: the first is merged before the end of the second is read.
	dl-forge checkpoint run="$run_id" model="$model" w:2100000:normal,1,1 b:1:0 >big
	dl-forge -b big delta learner=a tokens=1 steps=1 w:2100000:normal,2,1 b:1:0 >a
	dl-forge -b big delta learner=b tokens=1 steps=1 w:2100000:normal,3,1 b:1:nan >b
	dl-forge -b big delta learner=c tokens=1 steps=1 w:2100000:normal,4,1 b:1:1 >c
	dl-merge -s s1 -o want big a c
	for to in file append pipe; do
		case $to in
		file) merge -s s2 -o have big a b c ;;
		append)
			printf before >have
			dl-merge -s s2 big a b c >>have 2>words
			[ "$(head -c 6 have)" = before ]
			tail -c +7 have >rest
			mv rest have
			;;
		pipe) dl-merge -s s2 big a b c 2>words | cat >have ;;
		esac
		expect_same have want
		expect_same s2 s1
		rm s2
	done
	grep -qx "dl-merge: b: refused: tensor 'b' element 0 is nan" words
	# A quorum that is missed late leaves nothing.
	printf before >have
	run dl-merge -K 3 big a b c >>have
	run sh -c 'dl-merge -K 3 -s s2 big a b c >>have'
	expect_status 4
	[ "$(cat have)" = before ]
	expect_no_file s2
}
@test "the other answer of a learner counts when the first one turns out bad" {
	dl-forge -b g0 delta learner=b tokens=200 steps=10 w:2x2:0 b:1:nan >long.delta
	merge -o with g0 a.delta b.delta long.delta
	expect_status 0
	expect_stderr_line "^dl-merge: long.delta: refused: tensor 'b' element 0 is nan$"
	dl-merge -o without g0 a.delta b.delta
	expect_same with without
}

@test "a limit on the size of files is like a full disk" {
	dl-forge checkpoint run="$run_id" model="$model" w:300000:normal,1,1 >big
	dl-forge -b big delta learner=a tokens=1 steps=1 w:300000:normal,2,1 >big.delta
	echo old >g1
	run --separate-stderr bash -c 'ulimit -f 100; dl-merge -s state -o g1 big big.delta'
	expect_status 1
	expect_stdout ""
	expect_stderr_line "^dl-merge: (g1|state): .*File too large$"
	[ "$(cat g1)" = old ]
	expect_no_file state
	expect_no_temporary
}

@test "a reader that went away: the state stays consistent" {
	dl-forge checkpoint run="$run_id" model="$model" w:300000:normal,1,1 >big
	dl-forge -b big delta learner=a tokens=1 steps=1 w:300000:normal,2,1 >big.delta
	run bash -c 'dl-merge -s state big big.delta | head -c 10 >/dev/null; exit "${PIPESTATUS[0]}"'
	expect_status 141
	merge -s state -o g1 big big.delta
	expect_status 0
	dl-merge -s fresh -o want big big.delta
	expect_same g1 want
}

@test "merging by parts is not there yet: status 2" {
	for word in --partial --finish; do
		merge $word -o g1 g0 a.delta
		expect_status 2
		expect_stderr_line "^dl-merge: merging by parts, $word, is not there yet$"
		expect_no_file g1
	done
}

@test "wrong usage" {
	merge
	expect_status 2
	expect_stderr_line "a checkpoint and at least one delta are needed, see -h"
	merge g0
	expect_status 2
	for words in "-K 0" "-K -1" "-K x" "--rule mean" "--expert-weights mean" "--outer-lr nan" "--outer-lr -1" "--momentum 1" \
		"--momentum 0.9abc" "-j 0" "--outer-lr 1e999" "--wait 0"; do
		# shellcheck disable=SC2086 # two words
		merge $words g0 a.delta
		[ "$status" -eq 2 ] || complain "$words was accepted"
		expect_stdout ""
		expect_stderr_line "^dl-merge: "
	done
}

@test "a base that is none: status 1 or 3, one line" {
	merge a.delta b.delta
	expect_status 1
	expect_stderr_line "^dl-merge: a.delta: is a delta, not a checkpoint$"
	head -c -1 g0 >short
	merge short a.delta
	expect_status 3
	expect_stderr_line "^dl-merge: short: .*truncated"
	dl-forge -e f32r checkpoint run="$run_id" model="$model" w:2x2:1 >odd
	merge odd a.delta
	expect_status 1
	expect_stderr_line "^dl-merge: odd: tensor 'w' is encoded as f32r, not f32 or bf16$"
}

@test "a base that overflows is told by tensor and index" {
	dl-forge checkpoint run="$run_id" model="$model" w:2x2:0,3e38,0,0 b:1:0 >g0
	dl-forge -b g0 delta learner=a tokens=1 steps=1 w:2x2:1 b:1:0 >a.delta
	merge -s state -o g1 g0 a.delta
	expect_status 1
	expect_stderr_line "^dl-merge: g0: tensor 'w' element 1: merged value is 3e\+38, momentum 1$"
	expect_no_file g1 state
}

@test "decimal points are points in every locale" {
	dl-merge --outer-lr 0.7 -o want g0 a.delta
	run env LC_ALL=de_DE.UTF-8 dl-merge --outer-lr 0.7 -o g1 g0 a.delta
	expect_status 0
	expect_same g1 want
	run env LC_ALL=de_DE.UTF-8 dl-merge --outer-lr 0,7 g0 a.delta
	expect_status 2
}

@test "many answers in little memory" {
	need_plain_build
	dl-forge checkpoint run="$run_id" model="$model" w:3000000:normal,1,1 >big
	local i files=()
	for i in 1 2 3 4 5 6 7 8; do
		dl-forge -b big delta learner=l$i tokens=1 steps=1 w:3000000:normal,$i,1 >l$i
		files+=("l$i")
	done
	# 64 MiB and 8 MiB for each of 9 inputs
	dl-measure dl-merge -j 2 -s state -o g1 big "${files[@]}" 2>words
	read -r _ memory <words
	[ "$memory" -lt 136 ] || complain "took $memory MiB"
}

@test "four times as many answers take no more" {
	need_plain_build
	dl-forge checkpoint run="$run_id" model="$model" w:2000000:0.5 >big
	local i files=() back=()
	for i in $(seq 32); do
		dl-forge -b big delta learner="l$i" tokens="$i" steps=1 w:2000000:0.001 >"l$i"
		files+=("l$i")
		back=("l$i" "${back[@]}")
	done
	dl-measure dl-merge -j 2 -s state -o g1 big "${files[@]}" 2>words
	read -r _ memory <words
	[ "$memory" -lt 136 ] || complain "took $memory MiB"
	dl-merge -j 4 -s state2 -o g2 big "${back[@]}"
	expect_same g1 g2
}

# need_strace: and no sanitizer, whose threads it disturbs.
need_strace() {
	command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null || skip "no strace"
	need_plain_build
}

@test "a file system without locks, links or fsync serves as well" {
	need_strace
	local call
	dl-merge -s state1 -o g1 g0 a.delta
	delta a.delta g1 0.25
	cp state1 want.state
	dl-merge -s want.state -o want g1 a.delta
	for call in flock:EOPNOTSUPP flock:ENOLCK link:EPERM link:EOPNOTSUPP linkat:EOPNOTSUPP linkat:EPERM fsync:EINVAL fsync:EPERM; do
		cp state1 state
		strace -f -o /dev/null -e "inject=${call%:*}:error=${call#*:}" dl-merge -s state -o g2 g1 a.delta
		expect_same g2 want
		expect_same state want.state
		expect_same state.prev state1
		expect_no_temporary
		rm g2 state.prev
	done
}

@test "what gets its name is on the disk before, and the name after" {
	need_strace
	strace -f -o calls -e trace=fsync,rename,renameat dl-merge -s state -o g1 g0 a.delta
	[ "$(sed -n 's/.* fsync(.*/fsync/p; s/.* rename\(at\)\{0,1\}(.*, "\(.*\)").*/\2/p' calls | xargs)" = \
		"fsync state fsync fsync g1 fsync" ] || complain "$(cat calls)"
}

@test "temporary files lie beside what they become" {
	TMPDIR=/nonexistent merge -s state -o g1 g0 a.delta b.delta
	expect_status 0
	expect_no_stderr
}
