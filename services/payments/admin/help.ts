/** The output of `tollway payments --help`. */
export const adminHelp = `Usage: tollway payments verify
       tollway payments payout [--period NAME] [--merchant ID]
       tollway payments dispute raise TRANSACTION --amount MINOR_UNITS [--reason TEXT] [--due YYYY-MM-DD]
       tollway payments dispute win|lose DISPUTE
       tollway payments exceptions
       tollway payments exception retry ID | exception close ID --note TEXT

Works on the database of the payments service, which the environment names as it does for the service:
DATABASE_URL (or DATABASE_URL_FILE), or STATE_DIR for the embedded one. Only one process can open that:
while the service runs, it carries the command out.

  verify          replay all records and prove that they add up; stores the result, changes nothing else
  payout          pay merchants their balance, each once a period
  --period NAME   any name (default: today's date in UTC, which is also that of PAYOUT_TIME)
  --merchant ID   only this one
  dispute raise   a payer's bank claims an amount: it is held, with the fee, also above what can be refunded
  dispute win     it is given back to the merchant
  dispute lose    it goes to the payer
  exceptions      events of the processor that could not be booked
  exception retry books one after all, once its cause is known or a missing rate is set
  exception close closes one that was cleared up otherwise

Exit code: 0 done, 1 something does not add up or was refused, 2 it could not be done.

Examples:
  tollway payments verify
  tollway payments payout --period 2026-07
  tollway payments dispute raise 0197f3a2-5c00-7a10-8b3c-5d2e9f014a05 --amount 5000 --reason fraudulent
`
