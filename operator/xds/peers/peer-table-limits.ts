export interface PeerTableLimits {
  /** How long the table of a stream that has ended counts. */
  readonly graceMs: number
  /** The maximum of operators. Beyond it, the one without a stream for the longest time is forgotten. */
  readonly maxReporters: number
  /** The maximum of clients of one operator. */
  readonly maxClients: number
  /** The maximum of resources in all versions of one operator together. */
  readonly maxResources: number
}

export const defaultPeerTableLimits: PeerTableLimits = {
  graceMs: 60_000,
  maxReporters: 16,
  maxClients: 10_000,
  maxResources: 2_000_000,
}
