/** The last good content of one resource, as it is stored. */
export interface LastGoodEntry extends Note {
  /** The generation of the resource that had the content. */
  readonly generation: number
  /** The content, encoded by `encodeLastGood`. */
  readonly text: string
}

/** What is known of few resources beside their content: see `Memory`. */
interface Note {
  readonly goneSinceMs?: number | undefined
  readonly heirOf?: string | undefined
}

/** One part of an entry: the key and the value in the `binaryData` of a ConfigMap. */
type Piece = readonly [key: string, base64: string]

/** The maximum of a piece. An object has at most 1 MiB, and an API server accepts 1.5 MiB at a time. */
export const maxPieceChars = 512 * 1024

/** Divides an entry into pieces that each fit into an object. Each key has the number of the pieces. */
export function toPieces(uid: string, { generation, text }: LastGoodEntry): readonly Piece[] {
  const count = Math.max(1, Math.ceil(text.length / maxPieceChars))
  return Array.from({ length: count }, (_, index) => [
    `${uid}.${generation}.${index}.${count}`,
    // A multiple of four characters, so that each piece is base64 by itself.
    text.slice(index * maxPieceChars, (index + 1) * maxPieceChars),
  ])
}

/** Versions without notes pass over this key. */
export const noteKey = (uid: string, generation: number) => `${uid}.${generation}.note`

/**
 * Returns the piece with the note of an entry, which belongs beside its first piece; none for an empty note.
 */
export function toNote(uid: string, { generation, goneSinceMs, heirOf }: LastGoodEntry): readonly Piece[] {
  if (goneSinceMs === undefined && heirOf === undefined) return []
  return [[noteKey(uid, generation), Buffer.from(JSON.stringify({ goneSinceMs, heirOf })).toString('base64')]]
}

/** Returns an empty note for text that is none. */
function readNote(base64: string): Note {
  try {
    const { goneSinceMs, heirOf } = JSON.parse(Buffer.from(base64, 'base64').toString()) as Note
    return {
      ...(typeof goneSinceMs === 'number' && { goneSinceMs }),
      ...(typeof heirOf === 'string' && { heirOf }),
    }
  } catch {
    return {}
  }
}

/** `uid.generation.index.count` */
const keyForm = /^([0-9a-zA-Z-]+)\.(\d{1,15})\.(\d{1,3})\.(\d{1,3})$/

export interface FoundEntry extends LastGoodEntry {
  /** The keys of its pieces. */
  readonly keys: readonly string[]
}

/**
 * Joins the pieces, by the uid of the resource. The newest complete generation counts: an interrupted write
 * leaves an older one beside a newer.
 */
export function joinPieces(pieces: ReadonlyMap<string, string>): ReadonlyMap<string, FoundEntry> {
  const found = new Map<string, FoundEntry>()
  for (const key of pieces.keys()) {
    const [, uid = '', generationText = '', index, countText] = keyForm.exec(key) ?? []
    if (index !== '0') continue
    const [generation, count] = [Number(generationText), Number(countText)]
    if (generation <= (found.get(uid)?.generation ?? -1)) continue
    const keys = Array.from({ length: count }, (_, at) => `${uid}.${generation}.${at}.${count}`)
    if (count === 0 || !keys.every(key => pieces.has(key))) continue
    const text = keys.map(key => pieces.get(key)).join('')
    const note = pieces.get(noteKey(uid, generation))
    found.set(
      uid,
      note === undefined
        ? { generation, keys, text }
        : { generation, keys: [...keys, noteKey(uid, generation)], text, ...readNote(note) },
    )
  }
  return found
}
