# Looks into the bank's books for the refund with this key. Asked after a crash, and changes nothing.
if grep -q "\"key\":\"$RELIGHT_IDEMPOTENCY_KEY\"" ledger.jsonl 2>/dev/null; then
    printf '{"status":"done","outcome":{"booked":true,"receipt":"R-%.8s"}}\n' "$RELIGHT_IDEMPOTENCY_KEY"
else
    printf '{"status":"not_done"}\n'
fi
