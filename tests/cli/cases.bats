# tests/cases.tsv says which test stands for which known fault. A test that is renamed or lost is
# missed here.

load helper

# named FILE NAME: is there such a test, and is it run?
named() {
	case $1 in
	-) [ -n "$2" ] ;;
	*.bats) grep -qxF "@test \"$2\" {" "$repo/tests/$1" ;;
	*.c) grep -q "^static void $2(" "$repo/tests/$1" && grep -q "^	.*\b$2(" "$repo/tests/$1" ;;
	*) false ;;
	esac
}

@test "every case has a test that is there, or a reason" {
	local case file name rest bad=0
	while IFS=$'\t' read -r case file name rest; do
		[ -n "$case" ] && [ -z "$rest" ] && named "$file" "$name" || {
			echo "$case: no '$name' in tests/$file" >&2
			bad=1
		}
	done < <(sed 1d "$repo/tests/cases.tsv")
	[ "$bad" -eq 0 ]
}
