import { ExpectedError } from '../expected-error.ts'

/**
 * The error for a request that is rejected: it is answered with the status, and the connection ends, since
 * the beginning of the next request is unknown. The text quotes no received octets.
 */
export class Refusal extends ExpectedError {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}
