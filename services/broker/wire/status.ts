/** How a request goes, in the words of the specification. */
export interface Status {
  readonly code: StatusCode
  readonly message: string
}

/** The index of a code is its number on the wire. */
export const statusCodes = ['SUCCESS', 'INFO', 'WARNING', 'ERROR'] as const
export type StatusCode = (typeof statusCodes)[number]
