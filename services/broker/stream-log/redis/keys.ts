/**
 * The keys that brokers share. Each has an expiry, which removes the keys of lost brokers. All keys of an
 * installation have the same hash tag: a script can access a request and the directory in one step, and a
 * Redis Cluster stores all of them on one node.
 *
 * @param prefix separates installations that share a Redis
 */
export function redisKeys(prefix: string) {
  const tag = `{${prefix}:broker}`
  return {
    /**
     * Hash, the directory: the `DirectoryEntry` of each request, running or kept. Brokers read all of it when
     * they connect, and periodically.
     */
    requests: `${tag}:requests`,
    /** Hash: the key of the running request with these ids (`idsKey`). Prevents a second producer. */
    running: `${tag}:running`,
    /** String: the epoch of the latest request; see `openScript`. */
    epoch: `${tag}:epoch`,
    /** Stream: changes of the directory, which every broker follows. */
    changes: `${tag}:news`,
    /** A key that never exists, for commands that must change nothing. */
    probe: `${tag}:probe`,
    /** Stream of one request, see `entryId`. */
    entries: (request: string) => `${tag}:entries:${request}`,
    /** String: the header of one request, kept when entries are trimmed. */
    header: (request: string) => `${tag}:header:${request}`,
    /**
     * Hash of one request. `bearer`: hash of the producer's bearer token. Only of a request that can be
     * continued: `owner` counts its moves to another broker, `token` and `previous` are hashes of resume
     * tokens, `uses` counts their uses, `lost` is the value of `uses` at which the producer was lost,
     * `progress` belongs to the last entry.
     */
    producer: (request: string) => `${tag}:producer:${request}`,
    /** String of one broker: an increasing counter, and the number of its answers to other brokers. */
    heartbeat: (podId: string) => `${tag}:heartbeat:${podId}`,
    /** Stream: messages for one broker, such as positions of readers. */
    inbox: (podId: string) => `${tag}:inbox:${podId}`,
    /** While it exists, pushes of this request of this stream are rejected. */
    interrupted: (streamId: string, requestId: string) =>
      `${tag}:interrupted:${JSON.stringify([streamId, requestId])}`,
  }
}

export type RedisKeys = ReturnType<typeof redisKeys>

/** The greatest value, so that Redis rejects all later entries. */
const endPosition = '18446744073709551615'

/**
 * `<epoch>-<position>` in the stream of the request. Positions are the same at all brokers, so a consumer can
 * continue at any of them.
 */
export function entryId(epoch: number, position: number): string {
  return `${epoch}-${position}`
}

export function endId(epoch: number): string {
  return `${epoch}-${endPosition}`
}

/** Returns undefined for the id of the end. */
export function parsePosition(id: string): number | undefined {
  const position = id.slice(id.indexOf('-') + 1)
  return position === endPosition ? undefined : Number(position)
}
