# dl-plot: what it makes of tables, traces and runs; all but the last tests look at the script, which needs no gnuplot.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	printf 'seconds\ttokens\tstep\tmerges\tloss\tbits_per_byte\n0\t0\t0\t0\t-\t8\n1\t100\t1\t0\t5.5\t6.25\n2\t200\t2\t1\t5\t5.5\n' >a.tsv
	printf 'seconds\ttokens\tstep\tmerges\tloss\tbits_per_byte\n0\t0\t0\t0\t-\t8\n4\t100\t1\t0\t5.25\t-\n' >b.tsv
	printf 'mode\tchips\tlearners\tgoodput\nlockstep\t150000\t1\t0.9\ndecoupled\t150000\t8\t0.99\ndecoupled\t1200000\t8\t0.88\n' >sim.tsv
	cat >run.trace <<-'END'
		0 trace format=1 mode=decoupled learners=2 fragments=1 interval=4 overlap=2 quorum=1 grace=1 adopt=rebase step_tokens=64 seed=1 params=1 chips=0
		0 join learner=0
		0 join learner=1
		1 step learner=0
		1 call round=1 fragment=0 version=0 invited=all
		1 answer round=1 fragment=0 learner=0 steps=1 tokens=64
		2 stop learner=1 seconds=10 why=down
		3 merge round=1 fragment=0 version=1 answers=0
		4 adopt learner=0 fragment=0 version=1
		5 lost learner=0 state=kept
		15 back learner=0
		20 gone learner=1
		30 step learner=0
		30 end events=12
	END
}

# block NAME: the lines of a block of data of the script.
block() {
	printf '%s\n' "$output" | awk -v name="\$$1" '$1 == "END" { inside = 0 } inside { $1 = $1; print } $1 == name && $2 == "<<" { inside = 1 }'
}

@test "a table of play is bits per byte over tokens" {
	run --separate-stderr dl-plot --script a.tsv
	expect_status 0
	expect_no_stderr
	[ "$(block c0)" = "0 8
100 6.25
200 5.5" ]
	expect_stdout_like "set xlabel 'tokens'"
	expect_stdout_like "set ylabel 'bits per byte'"
	expect_stdout_like "unset key"
}

@test "several tables are curves with the names of their files, or with labels" {
	run --separate-stderr dl-plot --script a.tsv b.tsv
	expect_status 0
	expect_stdout_like "plot \\\$c0 using 1:2 with [^']* title 'a', \\\$c1 using 1:2 with [^']* title 'b'"
	[ "$(block c1)" = "0 8" ] # what is no number is left out
	run --separate-stderr dl-plot --script --x seconds --y loss,bits_per_byte --labels 'with failures' a.tsv b.tsv
	expect_status 0
	expect_stdout_like "title 'with failures, loss'"
	expect_stdout_like "title 'with failures, bits_per_byte'"
	expect_stdout_like "title 'b, loss'"
}

@test "a table of sim is goodput over chips, a curve for each mode and number of learners" {
	run --separate-stderr dl-plot --script --log x sim.tsv
	expect_status 0
	expect_stdout_like "title 'mode lockstep, learners 1'"
	expect_stdout_like "title 'mode decoupled, learners 8'"
	expect_stdout_like "set xtics \('150k' 150000, '1.2M' 1200000\)"
	expect_stdout_like "set logscale x"
	[ "$(block c1)" = "150000 0.99
1200000 0.88" ]
}

@test "metrics of dl-learn are loss over global steps, and of any table the first two columns are drawn" {
	printf 'global_step\tstep\ttokens\tloss\tlr\tgrad_norm\ttokens_per_s\n1\t1\t64\t5.5\t0.1\t1\t100\n' >m.tsv
	run --separate-stderr dl-plot --script m.tsv
	expect_status 0
	[ "$(block c0)" = "1 5.5" ]
	printf 'a\tb\n1\t2\n3\t4\n' >other.tsv
	run --separate-stderr dl-plot --script --from 2 - <other.tsv
	expect_status 0
	[ "$(block c0)" = "3 4" ]
}

@test "curves of many points are drawn as means" {
	awk 'BEGIN { print "x\ty"; for (i = 0; i < 10000; i++) print i "\t" 2 * i }' >long.tsv
	run --separate-stderr dl-plot --script long.tsv
	expect_status 0
	[ "$(block c0 | wc -l)" -eq 2000 ]
	[ "$(block c0 | sed -n 2p)" = "7 14" ] # of 5 to 9
}

@test "a trace is a lane for each learner and one for the syncer" {
	run --separate-stderr dl-plot --script run.trace
	expect_status 0
	expect_stdout_like "set ytics \('syncer' 2, 'learner 0' 1, 'learner 1' 0\)"
	[ "$(block bar0)" = "0 1 0 5 0.7 1.3
0 0 0 20 -0.3 0.3
15 1 15 30 0.7 1.3" ] # trains
	[ "$(block bar1)" = "2 0 2 12 -0.3 0.3" ] # stopped
	[ "$(block bar2)" = "5 1 5 15 0.88 1.12" ] # dead
	[ "$(block mark0 | cut -d ' ' -f 1)" = 1 ]
	[ "$(block mark2 | cut -d ' ' -f 1)" = 4 ]
	[ "$(block mark3 | cut -d ' ' -f 1)" = 3 ]
	run --separate-stderr dl-plot --script --from 4.5 --until 10 - <run.trace
	expect_status 0
	[ "$(block bar1)" = "4.5 0 4.5 10 -0.3 0.3" ]
	expect_stdout_like "set xrange \[ 4.5 : 10 \]"
	[ -z "$(block mark0)" ]
}

# A run of one learner, and a pass of its syncer.
small_tape() {
	corpus 20000 >c.txt
	dl-data -o c c.txt
	dl-init -r run -c <(printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 16' 'batch 4') -P 2 -H 2
	dl-learn -q -j 1 -r run -i ann -n 4 -d c.tok
	dl-sync -q -r run --once || [ $? -eq 4 ]
}
@test "of a run its tape is drawn" {
	small_tape
	dl-learn -q -j 1 -r run -i ann -n 4 -d c.tok
	dl-sync -q -r run --once || [ $? -eq 4 ]
	run --separate-stderr dl-plot --script run
	expect_status 0
	expect_stdout_like "set ytics \('syncer' 1, 'ann' 0\)"
	[ -n "$(block mark0)" ] # answers
	[ -n "$(block mark3)" ] # merges
	[ -n "$(block bar3)" ]  # epochs of the syncer
}

@test "what is drawn takes no name among the run's own files, whatever links lead there" {
	small_tape
	cp -r run before
	ln -s run/syncer/tape.1 soft
	ln -s run/global way
	for place in run/manifest run/head run/syncer/tape.1 run/syncer/epoch.1 run/syncer/new run/learner/ann/beat \
		run/global/f000/0.frag run/ckpt/0.ckpt soft way/new ./run/../run/head; do
		run -2 --separate-stderr dl-plot --script -o "$place" run
		expect_stdout ""
		expect_stderr_line "^dl-plot: $place: is (a file of the run, which the output would replace|in [a-z]+/ of the run, )"
	done
	run -2 --separate-stderr sh -c 'cd run && dl-plot --script -o head .'
	expect_stderr_line '^dl-plot: head: is a file of the run, '
	diff -r before run
	run -0 --separate-stderr dl-plot --script -o run/picture run
	[ -s run/picture ]
}

@test "nothing in a name or a title leaves its quotes" {
	printf "a'\\\\\t\`id\`\$(id)\n1\t2\n" >odd.tsv
	run --separate-stderr dl-plot --script --title "it's
set output 'x'" odd.tsv
	expect_status 0
	expect_stdout_like "set title 'it''s\?set output ''x'''"
	expect_stdout_like "set xlabel 'a''\\\\'"
	expect_stdout_like "set ylabel '\`id\`\\\$\(id\)'"
}

@test "bytes that are of no character are replaced, wherever they come from" {
	odd=$'\x01\xff \xed\xa0\x80 \xef\xbf\xbf \xe2\x82'
	cp a.tsv "$odd.tsv"
	printf 'a%s\tb\n1\t2\n' "$odd" >columns.tsv
	long=$(printf 'x%.0s' {1..254})é # cut within its last letter
	for how in "--labels|$odd,$odd|a.tsv|b.tsv" "--title|$odd|a.tsv" "a.tsv|$odd.tsv" columns.tsv "--labels|$long|a.tsv|b.tsv"; do
		IFS='|' read -ra words <<<"$how"
		run -0 --separate-stderr dl-plot --script "${words[@]}"
		iconv -f UTF-8 -t UTF-8 <<<"$output" >text
		[[ $output == *$'\xef\xbf\xbd'* ]]
		[ "$(tr -d '\1-\10\13\14\16-\37' <text)" = "$output" ]
		if command -v gnuplot >/dev/null && command -v xmllint >/dev/null; then
			dl-plot -o x.svg "${words[@]}"
			xmllint --noout x.svg
		fi
	done
}

@test "options that mean nothing for what is drawn are refused" {
	mkdir run
	: >run/manifest
	refused() { # LINE WORDS...
		run -2 --separate-stderr dl-plot --script "${@:2}"
		expect_stdout ""
		expect_stderr_line "$1"
	}
	for option in x y by labels log; do
		refused "^dl-plot: --$option is for tables, not for a run\$" --$option xy run
		refused "^dl-plot: run.trace: --$option is for tables, not for a trace\$" --$option xy run.trace
	done
	for option in key trust; do
		refused "^dl-plot: --$option is for runs, not for tables and traces\$" --$option none a.tsv
		refused "^dl-plot: --$option is for runs, not for tables and traces\$" --$option none a.tsv b.tsv
		refused "^dl-plot: --$option is for runs, not for tables and traces\$" --$option none run.trace
	done
}

@test "what cannot be drawn is told in one line" {
	refused() { # STATUS LINE WORDS...
		local want=$1 like=$2
		shift 2
		run --separate-stderr dl-plot --script "$@"
		expect_status "$want"
		expect_stdout ""
		expect_stderr_line "$like"
	}
	refused 2 '^dl-plot: what to draw\?'
	refused 2 "^dl-plot: option --size: 'huge' is not WIDTHxHEIGHT" --size huge a.tsv
	refused 2 "^dl-plot: option --log: 'z' is not x, y or xy$" --log z a.tsv
	refused 2 '^dl-plot: --from is not before --until$' --from 2 --until 1 a.tsv
	refused 1 '^dl-plot: none.tsv: ' none.tsv
	refused 1 "^dl-plot: a.tsv: line 1: no column 'joy'$" --y joy a.tsv
	printf 'a\tb\n1\t2\n3\n' >short.tsv
	refused 1 '^dl-plot: short.tsv: line 3: 1 columns, not 2 as in the first line$' short.tsv
	printf 'a\tb\n-\t-\n' >empty.tsv
	refused 1 '^dl-plot: empty.tsv: no point to draw: ' empty.tsv
	refused 1 '^dl-plot: zero.tsv: empty$' "$(: >zero.tsv; echo zero.tsv)"
	printf 'a\0b\n' >nul.tsv
	refused 1 '^dl-plot: nul.tsv: is no table' nul.tsv
	head -n 5 run.trace >cut.trace
	refused 1 '^dl-plot: cut.trace: ' cut.trace
	mkdir nothing
	refused 1 '^dl-plot: nothing: ' nothing
	refused 2 "^dl-plot: one run at a time: 'nothing'$" a.tsv nothing
}

@test "places along the axis are named one by one where there is room for that" {
	printf 'step\tloss\n0\t5\n48950\t2\n50818\t1\n' >close.tsv
	run -0 dl-plot --script close.tsv
	expect_stdout_like "set format x '%.1s%c'"
	[[ $output != *xtics* ]]
	printf 'step\tloss\n' >few.tsv
	seq 0 2 40 | awk '{ print $1 "\t" 50 - $1 }' >>few.tsv
	run -0 dl-plot --script few.tsv
	expect_stdout_like "set format x '%g'" # 2, not 2.0
}

@test "a name that says what can't be written is refused" {
	for name in x.jpg there/x.y.pdf; do
		run -2 --separate-stderr dl-plot -o "$name" a.tsv
		expect_stderr_line "^dl-plot: option -o: '$name': SVG and PNG can be written: .*--script"
		expect_no_file "$name"
	done
	dl-plot --script -o a.gnuplot a.tsv
	[ -s a.gnuplot ]
	mkdir d.x
	dl-plot --script -o d.x/.plot a.tsv
	[ -s d.x/.plot ]
}

@test "without gnuplot it says so, and leaves no picture" {
	mkdir elsewhere
	ln -s "$(command -v dl-plot)" elsewhere/dl-plot
	run --separate-stderr env PATH="$PWD/elsewhere" dl-plot -o a.svg a.tsv
	expect_status 1
	expect_stderr_line '^dl-plot: gnuplot is not here \(package gnuplot-nox\)'
	[ ! -e a.svg ]
}

@test "gnuplot draws SVG and PNG of all of them" {
	command -v gnuplot >/dev/null || skip "no gnuplot"
	for file in a.tsv sim.tsv run.trace; do
		dl-plot --title 'a title' "$file" >"$file.svg"
		grep -q '^<svg\|<svg$' "$file.svg"
		grep -q '</svg>' "$file.svg"
		dl-plot --size 300x200 -o "$file.png" "$file"
		[ "$(head -c 4 "$file.png" | tail -c 3)" = PNG ]
	done
	grep -q 'learner 1' run.trace.svg
}
