/** A limit that a call matched and that was not replaced, as answers list it. */
export interface ListedLimit {
  /** Empty when it has none. */
  readonly name: string
  readonly requestsPerUnit: number
  /** The length of the window, in whole seconds. */
  readonly windowSeconds: number
  /** The requests that the limit would admit now. */
  readonly remaining: number
  /**
   * Whole seconds until a fixed window ends. With another algorithm the seconds until the same call would be
   * admitted; undefined if it never would be.
   */
  readonly resetSeconds: number | undefined
  /** Whether the call exceeded the limit. False for a limit in shadow mode. */
  readonly over: boolean
  /** Whether the limit would reject the same call if it came again at once. False for a limit in shadow mode. */
  readonly delays: boolean
  /** False for a limit that answers do not mention. */
  readonly shown: boolean
}

/** The name of a limit in answers: its own or, if it has none, its index among the limits of the call. */
export function labelOf({ name }: ListedLimit, index: number): string {
  return name === '' ? `${index}` : name
}
