/**
 * An error that answers a caller and is no defect of the program. It has no stack trace, which takes 10 to 40
 * µs: with thousands of failing calls, all callers would wait for it.
 */
export class ExpectedError extends Error {
  constructor(message: string) {
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(message)
    Error.stackTraceLimit = stackTraceLimit
  }
}
