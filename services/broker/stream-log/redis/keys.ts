/**
 * The names of the shared keys. All keys of one installation have the same hash tag, so that a script can
 * access a request and the directory in one step; a Redis Cluster stores all of them on one node.
 *
 * Every key has an expiry, which removes the keys of lost brokers.
 */
export interface RedisKeys {
  /**
   * Hash, the directory: key of a request -> its entry (see `DirectoryEntry`), for running and for kept ended
   * requests. Brokers read all of it when they connect, and periodically.
   */
  readonly requests: string
  /** Hash: the three ids of a running request -> its key. Prevents a second producer with the same ids. */
  readonly running: string
  /** String: the last epoch of a request; see `openScript`. */
  readonly epoch: string
  /** Stream: each change of the directory. Every broker waits for its next entry. */
  readonly changes: string
  /** Stream of one request: its entries, see `entryId`. */
  entries(request: string): string
  /** String of one request: the bytes of its header, which is kept when entries are trimmed. */
  header(request: string): string
  /**
   * Hash of one request: `bearer` is the hash of the producer's bearer token. Of a request that can be
   * continued also: `owner` counts the brokers that its producer used before, `token` and `previous` are
   * hashes of its resume tokens, `uses` counts their uses, `lost` is the value of `uses` at which the producer
   * was lost, `progress` belongs to the last entry.
   */
  producer(request: string): string
  /**
   * String of one broker: a counter that increases while the broker runs, and the number of its answers to
   * questions of other brokers.
   */
  heartbeat(podId: string): string
  /** Stream of one broker: messages for it only, for example the positions of the readers of its requests. */
  inbox(podId: string): string
  /** Never exists: for commands that must change nothing. */
  readonly probe: string
  /** String: while it exists, pushes of this request of this stream are rejected. */
  interrupted(streamId: string, requestId: string): string
}

/** @param prefix separates installations that share a Redis */
export function redisKeys(prefix: string): RedisKeys {
  const tag = `{${prefix}:broker}`
  return {
    requests: `${tag}:requests`,
    running: `${tag}:running`,
    epoch: `${tag}:epoch`,
    changes: `${tag}:news`,
    probe: `${tag}:probe`,
    entries: request => `${tag}:entries:${request}`,
    header: request => `${tag}:header:${request}`,
    producer: request => `${tag}:producer:${request}`,
    heartbeat: podId => `${tag}:heartbeat:${podId}`,
    inbox: podId => `${tag}:inbox:${podId}`,
    interrupted: (streamId, requestId) => `${tag}:interrupted:${JSON.stringify([streamId, requestId])}`,
  }
}

/**
 * Replaces the position in the id of the end: the greatest value, so that Redis rejects all later entries.
 */
const endPosition = '18446744073709551615'

/**
 * The id of an entry in the stream of its request: `<epoch>-<position>`. Positions are equal in all brokers,
 * so a consumer can continue at any of them.
 */
export function entryId(epoch: number, position: number): string {
  return `${epoch}-${position}`
}

export function endId(epoch: number): string {
  return `${epoch}-${endPosition}`
}

/** The position in an id; undefined for the id of the end. */
export function positionOf(id: string): number | undefined {
  const position = id.slice(id.indexOf('-') + 1)
  return position === endPosition ? undefined : Number(position)
}
