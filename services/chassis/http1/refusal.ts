import { ExpectedError } from '../expected-error.ts'

/**
 * Why what a client sent is no request that we take: it is answered with that status and the connection ends,
 * for where the next request would begin is not sure. The text quotes nothing of what came.
 */
export class Refusal extends ExpectedError {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}
