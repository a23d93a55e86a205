import { ExpectedError } from '@tollway/chassis/expected-error.ts'

/** The bytes are no message of the schema; nothing of them may be relayed. */
export class MalformedMessage extends ExpectedError {
  /** The position of the first byte that cannot be read, from the start of the message. */
  readonly offset: number

  constructor(offset: number, found: string) {
    super(`malformed message: at byte ${offset} ${found}`)
    this.name = 'MalformedMessage'
    this.offset = offset
  }
}
