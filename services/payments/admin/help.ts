/** The output of `tollway payments --help`. */
export const adminHelp = `Usage: tollway payments verify
       tollway payments payout [--period NAME] [--merchant ID]
       tollway payments dispute raise TRANSACTION --amount MINOR_UNITS [--reason TEXT] [--due YYYY-MM-DD]
       tollway payments dispute win|lose DISPUTE
       tollway payments exceptions
       tollway payments exception retry ID | exception close ID --note TEXT

Works on the database of the payments service. The environment has the same variables as for the service:
DATABASE_URL (or DATABASE_URL_FILE), or STATE_DIR for the embedded database. Only one process can open the
embedded database: while the service runs, the service runs the command.

  verify          replay all records and verify that they add up; store the result, change nothing else
  payout          pay out the balance of each merchant once a period
  --period NAME   the name of the period (default: today's date in UTC, as PAYOUT_TIME uses)
  --merchant ID   pay out only this merchant
  dispute raise   hold the amount that a payer's bank claims, and the fee, also above the refundable amount
  dispute win     return the amount to the merchant
  dispute lose    return the amount to the payer
  exceptions      list the events of the processor that could not be booked
  exception retry book an event after its cause is fixed, such as a missing rate
  exception close close an exception that was resolved in another way

Exit code: 0 done, 1 the books do not add up or the action was rejected, 2 the action could not run.

Examples:
  tollway payments verify
  tollway payments payout --period 2026-07
  tollway payments dispute raise 0197f3a2-5c00-7a10-8b3c-5d2e9f014a05 --amount 5000 --reason fraudulent
`
