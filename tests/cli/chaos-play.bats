# dl-chaos play: training by a trace, in virtual time.

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	corpus 40000 >c.txt
	dl-data --split 2 --block 512 --holdout 0.1 -o two c.txt
	dl-data --block 512 --holdout 0.1 -o one c.txt
	cat >conf <<-'END'
		vocab 256
		d_model 16
		layers 1
		heads 2
		ff 32
		context 16
		batch 4
		lr 0.003
		warmup 4
		decay_steps 40
	END
	dl-init -c conf --seed 1 -o g0.ckpt
	trace decoupled 2 rebase >two.trace <<-'END'
		0 join learner=0
		0 join learner=1
		1 step learner=0
		1 step learner=1
		1 call round=1 fragment=0 version=0 invited=all
		2 step learner=0
		2 answer round=1 fragment=0 learner=0 steps=2 tokens=128
		2 stop learner=1 seconds=10 why=down
		3 step learner=0
		4 merge round=1 fragment=0 version=1 answers=0
		4 step learner=0
		4 adopt learner=0 fragment=0 version=1
		12 step learner=1 share=0.75
		12 adopt learner=1 fragment=0 version=1
	END
	steps=$(for i in 1 2 3 4 5 6; do echo "$i step learner=0"; done)
	printf '0 join learner=0\n%s\n' "$steps" | trace lockstep 1 overwrite >lock.trace
}

# trace MODE LEARNERS ADOPT < EVENTS: with a first and a last line.
trace() {
	awk -v mode="$1" -v learners="$2" -v adopt="$3" '
		BEGIN {
			printf "0 trace format=1 mode=%s learners=%d fragments=3 interval=4 overlap=2 quorum=1", mode, learners
			print " grace=1 adopt=" adopt " step_tokens=64 seed=1 params=1 chips=0"
		}
		{ print; at = $1 }
		END { print at, "end events=" NR }'
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	# shellcheck disable=SC2034
	files=$BATS_FILE_TMPDIR
	for f in "$files"/*.trace "$files"/*.tok "$files"/*.ckpt; do
		ln -s "$f" .
	done
}

# row N LIKE: line N of the table that was printed, with blanks for its tabs, is like that.
row() {
	[[ ${lines[$1]//$'\t'/ } =~ $2 ]]
}

@test "a trace is trained to a table and a checkpoint" {
	run --separate-stderr dl-chaos play --valid two.valid.tok --eval-every 128 -o end.ckpt two.trace g0.ckpt two.[01].tok
	expect_status 0
	expect_no_stderr
	[ "${lines[0]}" = "seconds	tokens	step	merges	loss	bits_per_byte" ]
	row 1 '^0 0 0 0 - [78]\.' || complain "the first line is of the beginning"
	row 2 '^1 128 0 0 5\.' || complain "a line as soon as 128 tokens are trained"
	row -1 '^12 368 2 1 ' || complain "the last line is of the end"
	bits=$(dl-eval -d two.valid.tok end.ckpt | awk '/^bits/ { print $4 }')
	[ "$(printf '%.6f' "${lines[-1]##*	}")" = "$bits" ]
	dl-show end.ckpt | grep -q '^  tokens *368$'
	dl-show --verify end.ckpt
}

@test "a table that cannot be written is told in one line" {
	run -1 --separate-stderr sh -c 'dl-chaos play two.trace g0.ckpt two.[01].tok >/dev/full'
	expect_stderr_line '^dl-chaos: standard output: No space left on device$'
}

@test "threads change nothing" {
	dl-chaos play -j 1 --finish --valid two.valid.tok -o a.ckpt two.trace g0.ckpt two.[01].tok >a.tsv
	dl-chaos play -j 2 --finish --valid two.valid.tok -o b.ckpt - g0.ckpt two.[01].tok <two.trace >b.tsv
	cmp a.tsv b.tsv
	dl-show --diff a.ckpt b.ckpt | grep -q 'all values are equal'
}

@test "it ends after so many tokens, or at a time, and says when a trace is too short" {
	run --separate-stderr dl-chaos play --tokens 150 two.trace g0.ckpt two.[01].tok
	expect_status 0
	row -1 '^2 192 ' || complain "150 tokens are passed by the third step"
	run --separate-stderr dl-chaos play --until 3.5s two.trace g0.ckpt two.[01].tok
	expect_status 0
	row -1 '^3 256 ' || complain "what comes after 3.5 s is not done"
	run --separate-stderr dl-chaos play --tokens 1000 two.trace g0.ckpt two.[01].tok
	expect_status 0
	expect_stderr_line "^dl-chaos: two.trace: ends after 368 tokens, before 1000$"
}

@test "lock-step of one shard is what dl-learn does, bit for bit" {
	dl-chaos play -B 8 -o a.ckpt lock.trace g0.ckpt one.tok >a.tsv
	dl-learn -q -j 1 -n 6 -B 8 -i learner-0 -d one.tok -e f32r g0.ckpt >b.delta
	dl-merge --outer-lr 1 --momentum 0 g0.ckpt b.delta >b.ckpt
	dl-show --diff a.ckpt b.ckpt | grep -q 'all values are equal'
}

# Sums of gradients in another order differ by about 1e-7 of their size; AdamW makes steps of the size of the rate,
# 0.003, whatever the gradient's, so six of them may differ by some 1e-6.
@test "lock-step of four parts is a batch four times as large, but for rounding" {
	dl-chaos play -o a.ckpt lock.trace g0.ckpt one.tok one.tok one.tok one.tok >a.tsv
	dl-learn -q -j 1 -n 6 -B 16 -i learner-0 -d one.tok -e f32r g0.ckpt >b.delta
	dl-merge --outer-lr 1 --momentum 0 g0.ckpt b.delta >b.ckpt
	dl-show --diff a.ckpt b.ckpt | awk '$1 == "all" && NF > 4 { found = 1; if ($3 > 5e-6) exit 1 } END { exit !found }'
}

# A run of two learners that take turns of five steps, the syncer in between, and the trace of it: who answered when is
# on the tape (trained), when who started is known. Sums of two are the same in either order.
# real_run CONF WEIGHTS: the run, its checkpoint run.ckpt and its trace run.trace.
real_run() {
	dl-init -r run -c "$1" --seed 1 -P 3 -H 4 --tau 3 -K 2 --adopt overwrite --outer-lr 0.7 --momentum 0.5 \
		--expert-weights "$2"
	dl-sync -q -r run --once || [ $? -eq 4 ]
	for _ in 1 2 3 4; do
		dl-learn -q -j 1 -r run -i learner-0 -n 5 -d two.0.tok
		dl-learn -q -j 1 -r run -i learner-1 -n 5 -d two.1.tok
		dl-sync -q -r run --once || [ $? -eq 4 ]
	done
	dl-sync -q -r run --checkpoint run.ckpt
	find run/syncer -name 'tape.*' | sort -t . -k 2 -n | xargs cat | awk '
		function of(key,    i) {
			for (i = 4; i < NF; i++)
				if (index($i, key "=") == 1)
					return substr($i, length(key) + 2)
			return ""
		}
		function fragment() { return of("fragment") ~ /^f/ ? substr(of("fragment"), 2) + 0 : "" }
		function emit(text) { print at, text }
		# What learner l answered with after k steps in all.
		function answers(l, k,    i) {
			for (i = 0; i < n[l]; i++)
				if (done[l, i] == k) { emit(answer[l, i]); done[l, i] = -1 }
		}
		function turn(l,    f, i) {
			if (turns[l]++) { emit("lost learner=" l " state=kept"); emit("back learner=" l) }
			else emit("join learner=" l)
			for (f = 0; f < 3; f++)
				if (version[f] > has[l, f]) emit("adopt learner=" l " fragment=" f " version=" (has[l, f] = version[f]))
			answers(l, steps[l])
			for (i = 0; i < 5; i++) { emit("step learner=" l); answers(l, ++steps[l]) }
		}
		# The lines of an epoch are about the turns before it.
		function flush(    i, f) {
			if (epoch > 1) { turn(0); turn(1) }
			n[0] = n[1] = 0
			at++
			for (i = 0; i < lines; i++) {
				emit(line[i])
				if (line[i] ~ /^merge/) { f = line[i]; sub(/.*fragment=/, "", f); version[f + 0]++ }
			}
			lines = 0
		}
		$3 == "epoch" { if (epoch) flush(); epoch = of("epoch") }
		$3 == "call" { line[lines++] = "call round=" of("round") " fragment=" fragment() " version=" of("version") " invited=all" }
		$3 == "merge" { line[lines++] = "merge round=" of("round") " fragment=" fragment() " version=" of("version") " answers=0,1" }
		$3 == "answer" {
			l = substr(of("learner"), 9)
			done[l, n[l]] = of("trained") / 64
			answer[l, n[l]++] = "answer round=" of("round") " fragment=" fragment() " learner=" l " steps=" of("steps") " tokens=" of("tokens")
		}
		END { flush() }' | trace decoupled 2 overwrite >run.trace
}

@test "a trace of a real run gives the checkpoint of that run, bit for bit" {
	real_run "$files/conf" tokens
	[ "$(grep -c ' merge ' run.trace)" -gt 4 ]
	dl-chaos play --outer-lr 0.7 --momentum 0.5 -o played.ckpt run.trace g0.ckpt two.[01].tok
	dl-show --diff run.ckpt played.ckpt | grep -q 'all values are equal'
}

# Learners go on, process after process, with what their experts were given before.
@test "so it does of a mixture whose experts are weighed by what was routed to them; and the run is replayed" {
	{ cat "$files/conf" && echo 'experts 4'; } >moe.conf
	dl-init -c moe.conf --seed 1 -o moe.ckpt
	real_run moe.conf routed
	[ "$(grep -c ' merge ' run.trace)" -gt 4 ]
	find run/syncer -name 'tape.*' -exec grep -h ' merge ' {} + >merges
	[ "$(grep -c ' expert_weights=routed ' merges)" -eq "$(wc -l <merges)" ]
	dl-show run/learner/learner-0/state | grep -q '^  routed.f00[12] '
	find run/learner -name 'f00[12].*.delta' | while read -r delta; do
		dl-show "$delta" | grep -q '^  routed '
	done
	run -0 --separate-stderr dl-sync -r run --replay
	expect_stdout_like ' 0 different'
	dl-chaos play --expert-weights routed --outer-lr 0.7 --momentum 0.5 -o played.ckpt run.trace moe.ckpt two.[01].tok
	dl-show --diff run.ckpt played.ckpt | grep -q 'all values are equal'
	dl-chaos play --outer-lr 0.7 --momentum 0.5 -o tokens.ckpt run.trace moe.ckpt two.[01].tok
	run dl-show --diff run.ckpt tokens.ckpt
	[[ $output != *'all values are equal'* ]]
}

@test "what cannot be is told in one line" {
	refused() { # STATUS LINE WORDS...
		local want=$1 like=$2
		shift 2
		run --separate-stderr dl-chaos play "$@"
		expect_status "$want"
		expect_stderr_line "$like"
	}
	refused 2 '^dl-chaos: play takes a trace, a checkpoint and at least one shard$' two.trace g0.ckpt
	refused 2 '^dl-chaos: option --rule: unknown rule .vote., expected rda or direct$' --rule vote two.trace g0.ckpt two.0.tok
	refused 2 '^dl-chaos: option --expert-weights: unknown weights .all., expected tokens or routed$' --expert-weights all \
		two.trace g0.ckpt two.0.tok
	refused 2 '^dl-chaos: option --encoding: ' -e q4 two.trace g0.ckpt two.0.tok
	refused 2 '^dl-chaos: option --outlier: 0, or at least 1: not 0.5$' --outlier 0.5 two.trace g0.ckpt two.0.tok
	refused 2 '^dl-chaos: g0.ckpt: is an input, which the output would replace$' -o g0.ckpt two.trace g0.ckpt two.0.tok
	refused 2 '^dl-chaos: -o -: ' -o - two.trace g0.ckpt two.0.tok
	refused 1 '^dl-chaos: missing.trace: ' missing.trace g0.ckpt two.0.tok
	refused 1 '^dl-chaos: two.0.tok: is a shard, not a checkpoint' two.trace two.0.tok two.0.tok
	head -n 9 two.trace >cut.trace
	refused 1 '^dl-chaos: cut.trace: ' cut.trace g0.ckpt two.0.tok
	sed 's/^12 step learner=1/12 leap learner=1/' two.trace >odd.trace
	refused 1 '^dl-chaos: odd.trace: line 14: ' odd.trace g0.ckpt two.0.tok
	broken() { # LINE SED
		sed "$2" two.trace >broken.trace
		refused 1 "^dl-chaos: broken.trace: $1" broken.trace g0.ckpt two.0.tok
	}
	broken 'line 1: format 2 is not known here' 's/format=1/format=2/'
	broken "line 1: 'chaos' is no mode: those are " 's/mode=decoupled/mode=chaos/'
	broken 'line 1: learners are 1 to 65536$' 's/learners=2/learners=0/'
	broken 'line 1: quorum is more than there are learners$' 's/quorum=1/quorum=3/'
	broken "line 1: 'mix:7' is no adopt: those are " 's/adopt=rebase/adopt=mix:7/'
	broken "line 1: 'trace' has no fragments$" 's/ fragments=3//'
	broken "line 1: grace: -1 is not within " 's/grace=1/grace=-1/'
	broken 'line 3: learner 5, of 2$' 's/^0 join learner=1/0 join learner=5/'
	broken "line 4: 'nan' is no number of seconds$" 's/^1 step learner=0/nan step learner=0/'
	broken 'line 5: time goes back$' 's/^1 step learner=1/0.5 step learner=1/'
	broken "line 14: share: 2 is not within 0 to 1$" 's/share=0.75/share=2/'
	broken "line 9: seconds: -10 is not within " 's/seconds=10/seconds=-10/'
	broken 'line 11: learner 1 has not answered round 1$' 's/answers=0/answers=1/'
	broken 'line 16: 14 events were read, 15 were written$' 's/events=14/events=15/'
	broken "a trace of 2000 learners: 1024 at most can be played$" 's/learners=2/learners=2000/'
	broken "a trace of mode lockstep has one learner, not 2$" 's/mode=decoupled/mode=lockstep/'
	: >empty.trace
	refused 1 '^dl-chaos: empty.trace: line 1: the file is empty' empty.trace g0.ckpt two.0.tok
	refused 1 '^dl-chaos: two.0.tok: line 1: byte ' two.0.tok g0.ckpt two.0.tok
	refused 1 '^dl-chaos: g0.ckpt: is a checkpoint, not a shard' two.trace g0.ckpt g0.ckpt
	refused 2 "^dl-chaos: option --until: '-1' is not a time" --until -1 two.trace g0.ckpt two.0.tok
	refused 2 '^dl-chaos: option --tokens: 0 is not within ' --tokens 0 two.trace g0.ckpt two.0.tok
	refused 2 '^dl-chaos: option --momentum: 1 is not within ' --momentum 1 two.trace g0.ckpt two.0.tok
	sed 's/fragments=3/fragments=300/' two.trace >many.trace
	refused 2 '^dl-chaos: the trace has 300 fragments, and the model only [0-9]+ tensors: simulate fewer \(-P\), ' many.trace g0.ckpt two.0.tok
	[ ! -e end.ckpt ]
}
