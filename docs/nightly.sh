#!/bin/sh
# Asks the same questions every night, keeps the scores, and fails if the score drops by more than 0.02.
#
#   nightly.sh QUESTIONS
#
# QUESTIONS is a JSONL file; each row has an id, messages, and the wanted answer as "answer". Answers and scores go to the
# working directory. It needs ingot, jq, a worker that serves the model name, and INGOT_REDIS. With cron, for example:
#
#   30 2 * * *  cd /srv/eval && INGOT_REDIS=redis://queue:6379/0 ./nightly.sh questions.jsonl
#
# It can be repeated: a second run in the same night adds nothing to the batch, replaces the night's score, and compares it
# with the last other night's.
set -eu
questions=$1
batch=nightly-$(date +%F)

ingot enqueue "$questions" --batch "$batch" --priority bulk
ingot results "$batch" -o "$batch.jsonl" --follow

score=$(jq -n --slurpfile rows "$questions" '
  ($rows | INDEX(.id)) as $row
  | [inputs | .response.body.choices[0].message.content == $row[.custom_id].answer | if . then 1 else 0 end]
  | add / length' "$batch.jsonl")

touch scores
grep -v "^$batch " scores > scores.new || true # grep fails if there are no other nights
last=$(tail -n 1 scores.new | cut -d ' ' -f 2)
echo "$batch $score" >> scores.new
mv scores.new scores
if jq -en "$score < ${last:-0} - 0.02" > /dev/null; then
  echo "$batch: the score is $score, after $last" >&2
  exit 1
fi
