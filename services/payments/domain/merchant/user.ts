/** A person, who is a member of merchants by invitation. */
export interface User {
  readonly id: string
  readonly email: string
  /** Milliseconds since the epoch. */
  readonly createdMs: number
}
