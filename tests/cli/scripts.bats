# The example scripts, as somebody who reads them would run them.

load helper

@test "diloco-loop trains by rounds in a shell loop, and goes on where it stopped" {
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 32' 'batch 4' 'lr 0.02' >small.conf
	corpus 200000 >text.txt
	run -0 --separate-stderr "$repo/scripts/diloco-loop" -r 2 -n 20 -c small.conf text.txt out
	expect_no_stderr
	expect_stdout_like '^round 1  [0-9.]+ bits per byte
round 2  [0-9.]+ bits per byte$'
	first=$output
	awk '{ bits[NR] = $3 } END { exit !(bits[2] < bits[1] && bits[1] < 8) }' <<<"$output"
	run -0 "$repo/scripts/diloco-loop" -r 1 -n 20 -c small.conf text.txt out
	expect_stdout "${first%%$'\n'*}"
	run -2 --separate-stderr "$repo/scripts/diloco-loop" text.txt
	expect_stderr_like '^diloco-loop - '
	run -2 --separate-stderr "$repo/scripts/diloco-loop" -r 0 text.txt out
	expect_stderr_line "^diloco-loop: '0' is not a number of rounds or steps$"
}

# A run, sweeps and trainings of seconds; the pictures are drawn by what is here.
@test "chaos-demo breaks a run, simulates clusters, trains under their failures, and ends with tables and pictures" {
	command -v gnuplot >/dev/null || skip "no gnuplot"
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 16' 'batch 4' 'lr 0.02' 'warmup 2' >small.conf
	corpus 60000 >text.txt
	export STEPS=100 MTBF=1 REPAIR=0.3 SEEDS=2 FOR=60s TOKENS=8192 MODEL=$PWD/small.conf CORPUS=$PWD/text.txt
	run -0 --separate-stderr "$repo/scripts/chaos-demo" out
	for row in 'finished +holds' 'lockstep +1200000 +1 +27 +[0-9.]+ \+-' 'decoupled +16 .*%' \
		'decoupled, 1.2M chips fail +[0-9]+ +8192 +[1-9][0-9]* +[2-7]\.'; do
		expect_stdout_like "$row"
	done
	for picture in goodput uptime run trace tokens seconds; do
		grep -q '</svg>' "out/$picture.svg"
		[ -s "out/$picture.png" ]
	done
	first=${output#*Measured} # what was measured is kept, and all again is the same
	run -0 "$repo/scripts/chaos-demo" out
	[ "${output#*Measured}" = "$first" ]
	run -1 --separate-stderr env STEPS=200 "$repo/scripts/chaos-demo" out
	expect_stderr_line "^chaos-demo: .* has what was made with '100 1 .*': give another directory$"
	run -2 --separate-stderr env STEPS=some "$repo/scripts/chaos-demo" out
	expect_stderr_line "^chaos-demo: 'some' is not a number of steps, seeds or tokens$"
	run -2 --separate-stderr "$repo/scripts/chaos-demo" one two
	expect_stderr_like '^chaos-demo - '
}
