import { ExpectedError } from '@tollway/chassis/expected-error.ts'
import type { Metadata } from './server.ts'

/** The codes under gRPC's standard names. */
export const statusCodes = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
} as const

export type StatusName = Exclude<keyof typeof statusCodes, 'OK'>

const errorNames = new Map<number, StatusName>(
  Object.entries(statusCodes)
    .filter(([name]) => name !== 'OK')
    .map(([name, code]) => [code, name as StatusName]),
)

/** Returns UNKNOWN for a code that gRPC does not define. */
export function statusName(code: number): StatusName {
  return errorNames.get(code) ?? 'UNKNOWN'
}

/**
 * An error that ends a call with this status. The caller receives the message, so it must contain no secrets.
 */
export class GrpcError extends ExpectedError {
  readonly code: number
  readonly trailers: Metadata | undefined

  constructor(status: StatusName, message: string, trailers?: Metadata) {
    super(message)
    this.name = 'GrpcError'
    this.code = statusCodes[status]
    this.trailers = trailers
  }
}
