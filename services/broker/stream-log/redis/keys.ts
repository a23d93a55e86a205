/**
 * The names of the keys that brokers share. All keys of one installation have the same hash tag, so that a
 * script can access a request and the directory in one step; a Redis Cluster stores all of them on one node.
 *
 * Every key has an expiry, which removes the keys of lost brokers.
 *
 * @param prefix separates installations that share a Redis
 */
export function redisKeys(prefix: string) {
  const tag = `{${prefix}:broker}`
  return {
    /**
     * Hash, the directory: from the key of a request to its entry (see `DirectoryEntry`), for running
     * requests and for ended ones that are kept. Brokers read all of it when they connect, and periodically.
     */
    requests: `${tag}:requests`,
    /**
     * Hash: from the ids of a running request (see `idsKey`) to its key. Prevents a second producer with the
     * same ids.
     */
    running: `${tag}:running`,
    /** String: the epoch of the latest request; see `openScript`. */
    epoch: `${tag}:epoch`,
    /** Stream: each change of the directory. Every broker follows it. */
    changes: `${tag}:news`,
    /** Never exists: for commands that must change nothing. */
    probe: `${tag}:probe`,
    /** Stream of one request: its entries, see `entryId`. */
    entries: (request: string) => `${tag}:entries:${request}`,
    /** String of one request: the bytes of its header, which is kept when entries are trimmed. */
    header: (request: string) => `${tag}:header:${request}`,
    /**
     * Hash of one request: `bearer` is the hash of the producer's bearer token. A request that can be
     * continued has more fields: `owner` counts the moves of the producer to another broker, `token` and
     * `previous` are hashes of its resume tokens, `uses` counts the uses of tokens, `lost` is the value of
     * `uses` at which the producer was lost, and `progress` belongs to the last entry.
     */
    producer: (request: string) => `${tag}:producer:${request}`,
    /**
     * String of one broker: a counter that increases while the broker runs, and the number of its answers to
     * questions of other brokers.
     */
    heartbeat: (podId: string) => `${tag}:heartbeat:${podId}`,
    /**
     * Stream of one broker: messages for that broker only, such as the positions of readers of its requests.
     */
    inbox: (podId: string) => `${tag}:inbox:${podId}`,
    /** String: while the key exists, pushes of this request of this stream are rejected. */
    interrupted: (streamId: string, requestId: string) =>
      `${tag}:interrupted:${JSON.stringify([streamId, requestId])}`,
  }
}

export type RedisKeys = ReturnType<typeof redisKeys>

/**
 * The position in the id of the end of a request: the greatest value, so that Redis rejects all later
 * entries.
 */
const endPosition = '18446744073709551615'

/**
 * Returns the id of an entry in the stream of its request: `<epoch>-<position>`. Positions are the same at
 * all brokers, so a consumer can continue at any of them.
 */
export function entryId(epoch: number, position: number): string {
  return `${epoch}-${position}`
}

export function endId(epoch: number): string {
  return `${epoch}-${endPosition}`
}

/** Returns the position in an id; undefined for the id of the end. */
export function parsePosition(id: string): number | undefined {
  const position = id.slice(id.indexOf('-') + 1)
  return position === endPosition ? undefined : Number(position)
}
