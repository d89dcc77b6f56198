# dl-learn -r: a learner of a run directory. What a syncer makes of it is in dl-sync.bats.

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	corpus 40000 >text.txt
	dl-data --split 2 --block 512 -o text text.txt
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 32' 'batch 4' 'warmup 10' >small.conf
	dl-init -r new -c small.conf --seed 3 -P 4 -H 4
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	ln -s "$BATS_FILE_TMPDIR"/{text.0.tok,text.1.tok,small.conf} .
	cp -r "$BATS_FILE_TMPDIR/new" run
}

teardown() {
	local pid
	for pid in $(jobs -p); do
		kill -KILL "$pid" 2>/dev/null || true
	done
}

need_syncer() {
	command -v dl-sync >/dev/null || skip "no dl-sync"
}

# told FILE KEY: the value of a header's key.
told() {
	dl-show "$1" | awk -v key="$2" '$1 == key { $1 = ""; print substr($0, 2); exit }'
}

# Waits until a command succeeds.
await() {
	for _ in $(seq 600); do
		"$@" && return
		sleep 0.05
	done
	echo "waited in vain: $*" >&2
	return 1
}

made_steps() { # NAME N
	[ -e "run/learner/$1/beat" ] && [ "$(told "run/learner/$1/beat" steps)" -ge "$2" ]
}

lives() { # NAME INCARNATION
	[ -e "run/learner/$1/beat" ] && [ "$(told "run/learner/$1/beat" incarnation)" -eq "$2" ]
}

@test "it trains with no syncer, silently, and goes on where it was" {
	run -0 --separate-stderr dl-learn -j 1 -r run -d text.0.tok -i ann -n 6
	expect_stdout ""
	expect_no_stderr
	[ "$(told run/learner/ann/beat state)" = gone ]
	[ "$(told run/learner/ann/beat trained)" -eq $((6 * 4 * 32)) ]
	dl-learn -j 1 -r run -d text.0.tok -i ann -n 2
	[ "$(told run/learner/ann/beat steps)" -eq 8 ]
	[ "$(told run/learner/ann/beat incarnation)" -eq 2 ]
	[ "$(told run/learner/ann/beat f003)" = "0 8 1024 0 0 0" ]
	expect_no_temporary run
}

@test "steps at once and in two lives leave the same state" {
	cp -r run twin
	dl-learn -j 1 -r run -d text.0.tok -i ann -n 8
	dl-learn -j 1 -r twin -d text.0.tok -i ann -n 5
	dl-learn -j 1 -r twin -d text.0.tok -i ann -n 3
	run -0 dl-show -q --diff run/learner/ann/state twin/learner/ann/state
}

# rates FILE: the learning rates of its rows
rates() {
	awk 'NR > 1 { print $5 }' "$1"
}
@test "with decay_tokens a second life goes on at the rate of the first" {
	sed 's/^warmup .*/warmup 0/' small.conf >tokens.conf
	echo 'decay_tokens 2048' >>tokens.conf # 16 steps of 4 x 32
	dl-init -r tokens -c tokens.conf --seed 3 -P 4 -H 4
	cp -r tokens twice
	dl-learn -q -j 1 -r tokens -d text.0.tok -i ann -n 12 --metrics once.tsv
	dl-learn -q -j 1 -r twice -d text.0.tok -i ann -n 5 --metrics first.tsv
	dl-learn -q -j 1 -r twice -d text.0.tok -i ann -n 7 --metrics second.tsv
	rates once.tsv >want
	(rates first.tsv && rates second.tsv) >got
	[ "$(wc -l <want)" -eq 12 ] && [ "$(sort -u want | wc -l)" -eq 12 ] && expect_same got want
}

@test "with decay_tokens a learner whose head is gone still knows what all have trained" {
	need_syncer
	sed 's/^warmup .*/warmup 0/' small.conf >tokens.conf
	echo 'decay_tokens 1000000' >>tokens.conf
	dl-init -r tokens -c tokens.conf --seed 3 -P 4 -H 4
	dl-sync -q -r tokens & syncer=$!
	dl-learn -q -j 1 -r tokens -d text.0.tok -i ann --metrics first.tsv & first=$!
	dl-learn -q -j 1 -r tokens -d text.1.tok -i ben & second=$!
	all_trained() {
		[ "$(told tokens/head trained)" -gt 60000 ]
	}
	await all_trained
	kill -TERM "$syncer" "$first" "$second"
	wait "$syncer" "$first" "$second"
	rm tokens/head
	dl-learn -q -j 1 -r tokens -d text.0.tok -i ann -n 3 --metrics again.tsv
	(rates first.tsv | tail -n 1 && rates again.tsv) >got
	sort -g -r got | cmp -s - got || complain "the rate rises" "$(cat got)"
}

@test "relative paths count from where it was started" {
	dl-learn -j 1 -r ./run -d ./text.0.tok -i ann -n 3 --metrics m.tsv
	[ "$(wc -l <m.tsv)" -eq 4 ]
	[ "$(cut -f 1-3 m.tsv | tail -n 1)" = $'3\t3\t384' ]
	expect_no_file run/m.tsv
}

@test "the name is made from key and shard unless it is given" {
	dl-learn -j 1 -r run -d text.0.tok -n 1
	dl-learn -j 1 -r run -d text.1.tok -n 1
	[ "$(find run/learner -mindepth 1 -maxdepth 1 -name '????????-[01]' | wc -l)" -eq 2 ]
}

@test "what makes no sense with a run directory is a usage error" {
	local words
	for words in "-s state" "-o a.delta" "g0.ckpt" "--adopt later" "--adopt mix:2" "--max-stale 0" "-i ../ann"; do
		# shellcheck disable=SC2086 # several words
		run -2 --separate-stderr dl-learn -n 1 -r run -d text.0.tok $words
		expect_stderr_line "^dl-learn: "
	done
	run -2 --separate-stderr dl-learn -n 1 -d text.0.tok --adopt rebase g0.ckpt
	expect_stderr_line "^dl-learn: option --adopt goes with -r RUN$"
	run -2 --separate-stderr dl-learn -n 1 -d text.0.tok --max-stale 5 g0.ckpt
	expect_stderr_line "^dl-learn: option --max-stale goes with -r RUN$"
	run -2 --separate-stderr dl-learn -n 1 -r '' -d text.0.tok
	expect_stderr_line "^dl-learn: the name of a file is empty$"
	run -2 --separate-stderr in_time dl-learn -r run
	expect_stderr_line "^dl-learn: train on what\? give -d SHARD$"
	run -2 --separate-stderr in_time dl-learn -r run -d text.0.tok -T 33 -n 1
	expect_stderr_line "^dl-learn: a context of 33 tokens is longer than the model's 32$"
	run -2 --separate-stderr in_time dl-learn -r run -d text.0.tok -n 1 --metrics text.0.tok
	expect_stderr_line "is an input"
	run -2 --separate-stderr in_time dl-learn -r run -d text.0.tok -n 1 --metrics run/manifest
	expect_stderr_line "^dl-learn: run/manifest: "
	expect_no_file run/learner/ann
}

@test "what is no run directory is told" {
	mkdir empty
	run -1 --separate-stderr in_time dl-learn -r empty -d text.0.tok -n 1
	expect_stderr_line "^dl-learn: empty: not a run directory"
	run -1 --separate-stderr in_time dl-learn -r missing -d text.0.tok -n 1
	expect_stderr_line "^dl-learn: missing: No such file or directory$"
	flip_bit run/manifest 2000
	run -3 --separate-stderr in_time dl-learn -r run -d text.0.tok -n 1
	expect_stderr_line "^dl-learn: manifest: "
}

@test "a stranger is not admitted, and is told how to be" {
	dl-key show >owner.pub
	new_home
	run -3 --separate-stderr in_time dl-learn -r run -d text.0.tok --trust owner.pub -n 1
	expect_stderr_line "^dl-learn: "
	expect_stderr_like "dl-key admit"
	expect_no_file run/learner/ann
}

@test "with no sign of a syncer it stops after --max-stale steps, saved, status 4" {
	run -4 --separate-stderr dl-learn -j 1 -r run -d text.0.tok -i ann --max-stale 0.007k
	expect_stderr_line "^dl-learn: no sign of a syncer for 7 steps: stopped with its state saved"
	[ "$(told run/learner/ann/beat steps)" -eq 7 ]
	[ "$(told run/learner/ann/state steps)" -eq 7 ]
	dl-init -r brief -c small.conf -P 4 -H 4 --lease 1s
	run -4 --separate-stderr dl-learn -j 1 -r brief -d text.0.tok -i ann # 20 times H, and a lease
	expect_stderr_line "^dl-learn: no sign of a syncer for 80 steps: stopped with its state saved"
	[ "$(told brief/learner/ann/beat steps)" -ge 80 ]
}

@test "called by cron it waits for a syncer that is called by cron, too; with none in all its time: status 4" {
	local steps
	dl-init -r brief -c small.conf -P 4 -H 4 --lease 0.2s
	dl-learn -v -j 1 -r brief -d text.0.tok -i ann --for 30s 2>words 3>&- &
	await grep -q "^dl-learn: no sign of a syncer for 80 steps: waiting for one$" words
	steps=$(told brief/learner/ann/beat steps)
	await eval 'dl-sync -q -r brief --once && [ "$(told brief/learner/ann/beat steps)" -gt "$((steps + 80))" ]'
	kill "$!"
	wait "$!"
	dl-init -r idle -c small.conf -P 4 -H 4 --lease 0.2s
	run -4 --separate-stderr dl-learn -q -j 1 -r idle -d text.0.tok -i ann --for 5s
	expect_stderr_line "^dl-learn: no sign of a syncer for 80 steps: stopped with its state saved"
}

@test "SIGTERM, SIGINT and the time limit save the state and say that it is gone" {
	local signal steps=0
	for signal in TERM INT; do
		# A shell that does not attend to its jobs makes them ignore SIGINT: env gives it back.
		env --default-signal=INT dl-learn -q -j 1 -r run -d text.0.tok -i ann \
			--max-stale 1000000000 3>&- &
		await made_steps ann $((steps + 3))
		kill "-$signal" $!
		wait $!
		[ "$(told run/learner/ann/beat state)" = gone ]
		[ "$(told run/learner/ann/state steps)" -eq "$(told run/learner/ann/beat steps)" ]
		steps=$(told run/learner/ann/beat steps)
	done
	dl-learn -q -j 1 -r run -d text.0.tok -i ann --for 0.3s --max-stale 1000000000
	[ "$(told run/learner/ann/beat state)" = gone ]
	[ "$(told run/learner/ann/beat incarnation)" -eq 3 ]
}

@test "killed at any moment it goes on, and its books say what was lost" {
	local kills trained f total
	for kills in 1 2 3; do
		dl-learn -q -j 1 -r run -d text.0.tok -i ann --max-stale 1000000000 --save-every 0.05 3>&- &
		await lives ann $kills
		await made_steps ann $(($(told run/learner/ann/beat steps) + 1))
		kill -KILL $!
		wait $! || true
	done
	dl-learn -q -j 1 -r run -d text.0.tok -i ann -n 1
	[ "$(told run/learner/ann/beat incarnation)" -eq 4 ]
	trained=$(told run/learner/ann/beat trained)
	for f in f000 f003; do
		total=$(told run/learner/ann/beat $f | awk '{ print $3 + $5 + $6 }')
		[ "$total" -eq "$trained" ] || complain "$f: $total of $trained tokens"
	done
	expect_no_temporary run
}

@test "a second process of the name is told who is the first" {
	dl-learn -q -j 1 -r run -d text.0.tok -i ann --max-stale 1000000000 3>&- &
	local pid=$!
	await made_steps ann 1
	run --separate-stderr in_time dl-learn -r run -d text.0.tok -i ann -n 1
	expect_status 4
	expect_stderr_line "^dl-learn: learner/ann/state(\.lock)?: in use by process $pid$"
	kill "$pid"
	wait "$pid"
}

@test "a learner whose name was taken over elsewhere stops, status 4, and writes nothing more" {
	dl-learn -q -j 1 -r run -d text.0.tok -i ann -n 2
	cp -r run elsewhere
	dl-learn -j 1 -r run -d text.0.tok -i ann --max-stale 1000000000 2>err 3>&- &
	local pid=$!
	await made_steps ann 3
	dl-learn -q -j 1 -r elsewhere -d text.0.tok -i ann -n 2
	dl-learn -q -j 1 -r elsewhere -d text.0.tok -i ann -n 2
	cp elsewhere/learner/ann/beat beat.new
	cp run/learner/ann/state before
	mv beat.new run/learner/ann/beat
	local ended=0
	wait "$pid" || ended=$?
	[ "$ended" -eq 4 ]
	grep -q "^dl-learn: learner ann: superseded by incarnation 3 in another process" err
	expect_same elsewhere/learner/ann/beat run/learner/ann/beat
	expect_same before run/learner/ann/state
}

@test "a damaged, cut or foreign state is named, passed over and replaced" {
	dl-learn -q -j 1 -r run -d text.0.tok -i ann -n 4
	cp run/learner/ann/state good
	flip_bit run/learner/ann/state 100001
	run -0 --separate-stderr dl-learn -j 1 -r run -d text.0.tok -i ann -n 1
	expect_stderr_like "^dl-learn: learner/ann/state: .*: ignored, a new one will replace it"
	head -c 3000 good >run/learner/ann/state
	run -0 --separate-stderr dl-learn -j 1 -r run -d text.0.tok -i ann -n 1
	expect_stderr_like "^dl-learn: learner/ann/state: .*: ignored"
	dl-learn -q -j 1 -r run -d text.0.tok -i bob -n 1
	cp run/learner/bob/state run/learner/ann/state
	run -0 --separate-stderr dl-learn -j 1 -r run -d text.0.tok -i ann -n 1
	expect_stderr_like "^dl-learn: learner/ann/state: is of learner 'bob', not 'ann': ignored"
	run -0 --separate-stderr dl-learn -j 1 -r run -d text.0.tok -i ann -n 1
	expect_no_stderr
	[ "$(told run/learner/ann/beat f000)" = "0 2 256 0 0 768" ]
}

@test "a beat or a state that is a FIFO, a directory or a link leads nowhere" {
	mkdir -p run/learner/ann far
	mkfifo run/learner/ann/beat
	run -0 --separate-stderr dl-learn -j 1 -r run -d text.0.tok -i ann -n 2
	[ -f run/learner/ann/beat ]
	rm run/learner/ann/state
	ln -s "$PWD/far/state" run/learner/ann/state
	run --separate-stderr dl-learn -j 1 -r run -d text.0.tok -i ann -n 1
	expect_status 1
	expect_no_file far/state
	mv run/learner/ann far/bob
	ln -s "$PWD/far/bob" run/learner/bob
	run -1 --separate-stderr dl-learn -j 1 -r run -d text.0.tok -i bob -n 1
	expect_stderr_line "^dl-learn: learner/bob"
}

@test "a full disk costs no training, and is told once" {
	need_small_disk
	cat >full <<-'EOF'
		cp -r "$1/run/manifest" "$1/run/global" . && mkdir learner
		dl-learn -j 1 -r . -d "$1/text.0.tok" -i ann --save-every 0.05 --max-stale 1000000000 \
			--metrics "$1/m.tsv" 2>"$1/words" &
		lines() { wc -l <"$1/m.tsv"; }
		until [ -e learner/ann/state ]; do sleep 0.05; done
		head -c 9000000 /dev/zero >fill 2>/dev/null
		until grep -q "not saved" "$1/words"; do sleep 0.05; done
		most=$(($(lines "$1") + 500))
		until [ "$(lines "$1")" -ge "$most" ]; do sleep 0.05; done
		rm fill
		kill $! && wait $! && cp learner/ann/state "$1/saved"
	EOF
	run -0 --separate-stderr small_disk 3m sh "$PWD/full" "$PWD"
	[ "$(grep -c "state: .*No space left on device: state not saved, training goes on" words)" -eq 1 ] ||
		complain "expected one line of the state" "$(cat words)"
	[ "$(told saved steps)" -eq "$(tail -n 1 m.tsv | cut -f 2)" ]
}

@test "a run directory that is renamed meanwhile is the same one" {
	dl-learn -q -j 1 -r run -d text.0.tok -i ann --max-stale 1000000000 3>&- &
	local pid=$!
	await made_steps ann 1
	mv run moved
	ln -s moved run
	await made_steps ann $(($(told run/learner/ann/beat steps) + 5))
	kill "$pid"
	wait "$pid"
	[ "$(told moved/learner/ann/state steps)" -ge 6 ]
}

@test "global may be read-only" {
	need_ordinary_user
	chmod -R a-w run/global
	dl-learn -q -j 1 -r run -d text.0.tok -i ann -n 2
	chmod -R u+w run/global
}

@test "with a syncer, fragments are merged while learners come and go" {
	need_syncer
	rm -rf run
	dl-init -r run -c small.conf --seed 3 -P 4 -H 4
	dl-learn -q -j 1 -r run -d text.0.tok -i ann --max-stale 1000000000 3>&- &
	local ann=$!
	dl-sync -q -r run 3>&- &
	local syncer=$!
	merged() { [ "$(told run/learner/ann/beat f00"$1" | cut -d ' ' -f 1)" -ge "$2" ]; }
	await merged 1 2
	dl-learn -q -j 1 -r run -d text.1.tok -i bob --adopt rebase --max-stale 1000000000 3>&- &
	local bob=$!
	await made_steps bob 5
	kill -KILL "$ann"
	wait "$ann" || true
	dl-learn -q -j 1 -r run -d text.0.tok -i ann --max-stale 1000000000 3>&- &
	ann=$!
	await merged 3 4
	kill "$ann" "$bob" "$syncer"
	wait "$ann"
	wait "$bob"
	wait "$syncer" || true
	[ "$(told run/learner/ann/beat incarnation)" -eq 2 ]
	[ "$(told run/learner/bob/beat f001 | cut -d ' ' -f 6)" -ge 0 ]
}

@test "on a run that is done it says so, and one who was never there leaves no trace" {
	need_syncer
	dl-init -r over -c small.conf --seed 3 -P 2 -H 4 --target-steps 8 --lease 1s
	dl-sync -q -r over 3>&- &
	dl-learn -q -j 1 -r over -d text.0.tok -i ann
	wait
	for name in "-i ann" "-i bob" ""; do
		# shellcheck disable=SC2086 # words on purpose
		run -0 --separate-stderr dl-learn -j 1 -r over -d text.1.tok $name
		expect_stdout ""
		expect_stderr_line '^dl-learn: the run is done \(step [0-9]+\)$'
	done
	[ "$(ls over/learner)" = ann ]
	run -0 --separate-stderr dl-learn -q -j 1 -r over -d text.1.tok
	expect_no_stderr
	run -0 --separate-stderr dl-show --ledger over
}
