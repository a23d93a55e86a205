/** The operator's account lacks a right to Secrets of a namespace. */
export class SecretForbiddenError extends Error {
  override readonly name = 'SecretForbiddenError'
  /** How to grant the right, as a sentence that ends with the command. */
  readonly advice: string

  /** @param message the Secret, and the access that is missing */
  constructor(message: string, advice: string) {
    super(message)
    this.advice = advice
  }
}
