/** How a request goes, in the words of the specification. */
export interface Status {
  readonly code: StatusCode
  readonly message: string
}

/** The wire's number of a code is its place in this list. */
export const statusCodes = ['SUCCESS', 'INFO', 'WARNING', 'ERROR'] as const
export type StatusCode = (typeof statusCodes)[number]
