#!/bin/sh
# Makes models in every type that llama-quantize writes and Ingot reads, compares each file with float32, and prints a table. The oracle of
# a file is its copy in F32, which llama.cpp has dequantised: with F32 weights, Ingot is as close to transformers as float32 allows. Rows of
# SmolLM2 and Gemma are no multiples of 256, so llama-quantize replaces K and I types in most of their tensors, as the table shows. The
# same types are therefore also made of tiny-llama, whose rows are multiples of 256.
#
#   types.sh LLAMA_QUANTIZE FIDELITY WORK TOKENS NAME=BASE.gguf=CHUNKS.jsonl.gz...
#
# FIDELITY is the program in fidelity/, WORK a folder for the files, TOKENS the number of tokens to compare of each type. JOBS files are
# made at a time (1), of TYPES.
set -eu
quantize=$1 fidelity=$2 work=$3 tokens=$4
shift 4
types="${TYPES:-F16 BF16 Q8_0 Q6_K Q5_K_M Q5_K_S Q5_1 Q5_0 Q4_K_M Q4_K_S Q4_1 Q4_0 IQ4_NL IQ4_XS Q3_K_L Q3_K_M Q3_K_S Q2_K}"
mkdir -p "$work"

# line NAME BASE CHUNKS TYPE writes a line of the table to a file.
line() {
	made=$work/$1-$4
	{
		"$quantize" --allow-requantize "$2" "$made.gguf" "$4" 1
		"$quantize" --allow-requantize "$made.gguf" "$made.f32.gguf" F32 1
		"$fidelity" --backend cpu --kv f32 --model "$made.f32.gguf" --references "$3" --tokens "$tokens" --write "$made.jsonl.gz"
		"$fidelity" --backend cpu --model "$made.gguf" --references "$made.jsonl.gz" --tokens "$tokens"
	} >"$made.log" 2>&1 || echo "| $1 | $4 | failed: $(tail -n 1 "$made.log") | | | | | |" >"$made.line"
	[ -e "$made.line" ] || awk -v name="$1" -v type="$4" '
		/^weights: / { sub(/^weights: /, ""); share = $0 }
		$1 == "all" { printf "| %s | %s | %s | %s | %s | %s | %s %% | %s |\n", name, type, share, $2, $3, $4, $5, $7 }' "$made.log" >"$made.line"
	rm -f "$made.gguf" "$made.f32.gguf"
}

for model in "$@"; do
	name=${model%%=*} rest=${model#*=}
	n=0
	for type in $types; do
		line "$name" "${rest%=*}" "${rest##*=}" "$type" &
		n=$((n + 1))
		[ $((n % ${JOBS:-1})) -ne 0 ] || wait
	done
	wait
done
echo '| model | file | types of the weights | positions | mean \|d\| | max \|d\| | first choice equal | ln PPL |'
echo '|---|---|---|--:|--:|--:|--:|--:|'
for model in "$@"; do
	for type in $types; do
		cat "$work/${model%%=*}-$type.line"
	done
done
