# Books a refund in ledger.jsonl, the books of a very small bank. The refund comes on stdin, as one line of JSON.
read -r refund
printf '{"key":"%s","refund":%s}\n' "$RELIGHT_IDEMPOTENCY_KEY" "$refund" >>ledger.jsonl || exit 1

# It is booked, but the bank takes a moment to answer. Whoever dies now does not know that the money has left.
sleep "${BANK_ANSWERS_AFTER:-1}"
printf '{"booked":true,"receipt":"R-%.8s"}\n' "$RELIGHT_IDEMPOTENCY_KEY"
