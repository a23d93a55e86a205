/** The last good content of one resource in its stored form. */
export interface LastGoodEntry extends Note {
  /** The generation of the resource that had this content. */
  readonly generation: number
  /** The content as `encodeLastGood` encodes it. */
  readonly text: string
}

/** Facts that only few resources have; see `ResourceMemory`. */
interface Note {
  readonly goneSinceMs?: number | undefined
  readonly heirOf?: string | undefined
}

/** A part of an entry: a key and its value in the `binaryData` of a ConfigMap. */
type Piece = readonly [key: string, base64: string]

/** The maximum length of a piece. An object can have 1 MiB, and an API server accepts requests of 1.5 MiB. */
const maxPieceChars = 512 * 1024

/** Splits an entry into pieces that each fit into an object. Each key contains the number of pieces. */
export function toPieces(uid: string, { generation, text }: LastGoodEntry): readonly Piece[] {
  const count = Math.max(1, Math.ceil(text.length / maxPieceChars))
  return Array.from({ length: count }, (_, index) => [
    `${uid}.${generation}.${index}.${count}`,
    // A multiple of four characters, so that each piece is valid base64.
    text.slice(index * maxPieceChars, (index + 1) * maxPieceChars),
  ])
}

/** The key of an entry's note. Versions that know no notes ignore it. */
export const noteKey = (uid: string, generation: number) => `${uid}.${generation}.note`

/**
 * Returns the piece with the note of an entry; none if the note is empty. It must be stored in the same
 * object as the first piece of the text.
 */
export function toNote(uid: string, { generation, goneSinceMs, heirOf }: LastGoodEntry): readonly Piece[] {
  if (goneSinceMs === undefined && heirOf === undefined) return []
  return [[noteKey(uid, generation), Buffer.from(JSON.stringify({ goneSinceMs, heirOf })).toString('base64')]]
}

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

const keyForm = /^([0-9a-zA-Z-]+)\.(\d{1,15})\.(\d{1,3})\.(\d{1,3})$/

export interface FoundEntry extends LastGoodEntry {
  /** The keys of all pieces of the entry, including the note. */
  readonly keys: readonly string[]
}

/**
 * Joins pieces to entries, by the uid of the resource. Of several generations, the newest complete one
 * counts: an interrupted write leaves pieces of an older and of a newer one.
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
