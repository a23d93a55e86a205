/** The operator's account lacks a right to Secrets of a namespace. */
export class SecretForbiddenError extends Error {
  override readonly name = 'SecretForbiddenError'
  /** What grants the right, as a sentence that ends with the command. */
  readonly advice: string

  /** @param message which Secret, and what may not be done with it */
  constructor(message: string, advice: string) {
    super(message)
    this.advice = advice
  }
}
