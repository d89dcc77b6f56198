# Kills and failing calls at any moment: nothing accepted is lost, nothing counts twice, replay gives the same bits.

# shellcheck disable=SC2004,SC2034,SC2030,SC2031,SC2314 # variables of decoupled.bash
load helper
load decoupled

setup_file() {
	setup_runs
	ready_run
	cp -r "$BATS_FILE_TMPDIR/ready" calm
	dl-sync -q -r calm --once
	merged calm >"$BATS_FILE_TMPDIR/want"
	teardown
}
setup() {
	setup_run
}

# once_after RUN: goes on undisturbed, as cron would, until both fragments are merged.
once_after() {
	local _
	for _ in 1 2 3; do
		dl-sync -q -r "$1" --once 2>>words || :
		[ "$(merged "$1" | wc -l)" -lt 2 ] || return 0
	done
}
# every CALLS HOW FIRST STRIDE: dl-sync --once over and over on a copy of `ready`, with a fault at each STRIDE-th
# call from FIRST until there are no more. Whatever the first try did, the next ones end up with what an
# undisturbed merge gives, replay agrees and the books balance.
every() {
	local calls=$1 how=$2 n ended
	need_plain_build
	for ((n = $3; n < 5000; n += $4)); do
		rm -rf run hit words
		cp -r "$BATS_FILE_TMPDIR/ready" run
		ended=0
		FAULT_HIT=$PWD/hit dl-break "$calls" "$how" "$n" dl-sync -q -r run --once 2>words || ended=$?
		[ -e hit ] || break
		case $how:$ended in
		kill:137 | *:0 | *:1 | *:4) ;;
		*) complain "$how at call $n, $(cat hit): status $ended" "$(cat words)" || return ;;
		esac
		once_after run
		merged run >have
		cmp -s have "$BATS_FILE_TMPDIR/want" ||
			complain "$how at call $n, $(cat hit): not what a calm merge gives" "$(cat words)" "$(cat have)" || return
		dl-sync -q -r run --replay >>words 2>&1 || complain "$how at call $n, $(cat hit): replay" "$(cat words)" || return
		dl-show --ledger run >ledger 2>>words ||
			complain "$how at call $n, $(cat hit): books" "$(cat words ledger)" || return
	done
	[ "$n" -gt "$3" ] || complain "$calls: never hit"
}

@test "the syncer killed at every 17th call on a file: as if it had not been" {
	every all kill 1 17
}
@test "calls of a merge that fail with what is usual for them: as if they had not" {
	every write ENOSPC 1 11
	every fsync EIO 1 5
	every link EIO 1 3
	every rename EXDEV 1 3
	every open ESTALE 2 37
	every write short 1 17
	every read short 1 61
	every read EIO 26 37
}
@test "a link or rename that was done and reports failure, as over NFS: as if it had not" {
	every link done:EEXIST 1 1
	every rename done:ENOENT 1 1
	every mkdir done:EEXIST 1 1
}
# decided RUN: a copy of `ready` whose syncer dies when round 1 is decided, and not published; its answers are removed.
decided() {
	local n
	for ((n = 1; n < 20; n++)); do
		rm -rf "$1"
		cp -r "$BATS_FILE_TMPDIR/ready" "$1"
		dl-break link kill "$n" dl-sync -q -r "$1" --once 2>words || :
		[ "$(run=$1 tape_count ' merge ')" -eq 0 ] || break
	done
	[ "$(run=$1 tape_count ' publish ')" -eq 0 ] || complain "published"
	rm "$1"/learner/*/f*.delta
}
@test "answers of a decision are removed: it is given up, they are refused, the books balance, whenever the syncer dies" {
	local n
	need_plain_build
	decided start
	for ((n = 1; n < 200; n += 2)); do
		rm -rf run hit
		cp -r start run
		FAULT_HIT=$PWD/hit dl-break write kill "$n" dl-sync -q -r run --once 2>words || :
		dl-sync -q -r run --once 2>>words || :
		tape_has ' abandon round=1 ' || complain "killed at write $n: not given up" "$(tape)" || return
		run --separate-stderr dl-show --ledger run
		[ "$status" -eq 0 ] || complain "killed at write $n: the books do not balance" "$(tape)" || return
		[ "$(tape_count ' refuse round=1 .*verdict=abandoned')" -le 2 ] ||
			complain "killed at write $n: refused twice" "$(tape)" || return
		[ -e hit ] || break
	done
	[ "$n" -gt 5 ] || complain "never hit"
	[ "$(tape_count ' refuse round=1 .*verdict=abandoned')" -eq 2 ] || complain "not refused" "$(tape)"
	dl-sync -q -r run --replay || complain "replay"
}
# bats test_tags=slow
@test "the syncer killed at every call on a file" {
	every all kill 1 1
}
# bats test_tags=slow
@test "every call on a file failing once, in every way" {
	local how changing=write,fsync,ftruncate,rename,link,unlink,mkdir looking=open,read,close,readdir,stat,flock
	every all EIO 1 1
	for how in ENOSPC EINTR ESTALE EACCES done:EIO; do
		every $changing "$how" 1 1
	done
	every rename,link EXDEV 1 1
	every write short 1 1
	# Hundreds of calls only look, and make no difference between these: each fails in one of them.
	every $looking EINTR 1 4
	every $looking ESTALE 2 4
	every $looking EACCES 3 4
	every read short 2 3
}

# keeper NAME COMMAND...: lets it live again and again, until it leaves with status 0. As long as there are lives
# in `budget`, each ends at a call drawn at random.
keeper() {
	local name=$1 random ended
	random=$(cksum <<<"$name $seed" | cut -d ' ' -f 1)
	shift
	while :; do
		ended=0
		if [ "$(wc -l <kills)" -lt "$budget" ]; then
			random=$(((random * 1103515245 + 12345) & 0x7fffffff))
			dl-break all kill $((1 + (random >> 8) % (20 << ((random >> 4) % 7)))) "$@" 2>>"$name.log" &
		else
			"$@" 2>>"$name.log" &
		fi
		echo $! >"$name.pid"
		echo $! >>started
		wait $! || ended=$?
		case $ended in
		0) return 0 ;;
		137) echo "$name" >>kills ;;
		*)
			echo "$name left with status $ended: $(tail -n 1 "$name.log")" >>failures
			return 1
			;;
		esac
	done 2>/dev/null
}
# Kills at moments that no call marks.
killer() {
	local random=$seed name
	while [ "$(wc -l <kills)" -lt "$budget" ]; do
		random=$(((random * 1103515245 + 12345) & 0x7fffffff))
		sleep "0.$(printf %03d $((20 + (random >> 8) % 300)))"
		name=$(set -- sync a b c && shift $(((random >> 5) % 4)) && echo "$1")
		kill -KILL "$(cat "$name.pid")" || :
	done 2>/dev/null
}
# storm N STEPS: a run of so many steps whose participants are killed N times.
storm() {
	local budget=$1 seed=7 name n=0
	need_plain_build
	: >kills
	: >failures
	small_run run --target-steps "$2"
	keeper sync dl-sync -q -r run --take-over 3>&- &
	pids[sync]=$!
	for name in a b c; do
		keeper "$name" dl-learn -q -r run -i "$name" -j 1 -d "$BATS_FILE_TMPDIR/part.$n.tok" 3>&- &
		pids[$name]=$!
		n=$((n + 1))
	done
	killer 3>&- &
	pids[killer]=$!
	for name in sync a b c; do
		until_true dead "$name"
	done
	[ ! -s failures ] || complain "$(cat failures)"
	kill -KILL "${pids[killer]}" 2>/dev/null || :
	[ "$(wc -l <kills)" -ge "$1" ] || complain "only $(wc -l <kills) kills: give it more steps"
	tape_has ' done '
	expect_sound run
}

@test "20 kills at random moments: the run ends, replay and books agree" {
	storm 20 300
}
# bats test_tags=slow
@test "200 kills at random moments: the run ends, replay and books agree" {
	patience=1800
	storm 200 3000
}
