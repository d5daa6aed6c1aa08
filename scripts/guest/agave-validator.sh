#!/bin/sh
# How many operators start their validator: as the child of a shell whose script is called like it. The kernel cuts this
# name to exactly the validator's.
mkdir -p /var/lib/ledger
[ -p /var/lib/ledger/orders ] || mkfifo /var/lib/ledger/orders
while [ -e /run/not-yet ]; do sleep 0.2; done
/in/agave-validator --ledger /var/lib/ledger --rpc-port 8899
code=$?
echo "the validator has ended with $code"
exit "$code"
