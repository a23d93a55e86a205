import {
  type FoundEntry,
  joinPieces,
  type LastGoodEntry,
  noteKey,
  toNote,
  toPieces,
} from './last-good-entry.ts'

/**
 * Small entries share an object up to this number of characters. An object exceeds it only when all names are
 * in use.
 */
const sharedChars = 64 * 1024
/**
 * The maximum number of base64 characters in an object. Kubernetes allows 1 MiB of data, which is 1.3 MiB in
 * base64.
 */
const maxChars = 1024 * 1024

/**
 * Assigns entries to objects, and decides which objects must be written. A store writes them.
 *
 * A new version of an entry replaces the old one by a single write if it fits into the same object. Otherwise
 * the old version stays until all new pieces are written. So an interruption never loses an entry.
 */
export type LastGoodLayout = ReturnType<typeof createLastGoodLayout>

export type ObjectData = Readonly<Record<string, string>>

interface StoredObject {
  readonly pieces: Map<string, string>
  chars: number
}

const textKeys = ({ keys, generation }: FoundEntry, uid: string) =>
  keys.filter(key => key !== noteKey(uid, generation))

/**
 * @param stored the data of each existing object
 * @param names the names that objects can have
 */
export function createLastGoodLayout(stored: ReadonlyMap<string, ObjectData>, names: readonly string[]) {
  const objects = new Map<string, StoredObject>()
  const objectByKey = new Map<string, string>()
  const dirty = new Set<string>()
  /** The keys of old versions, which stay until everything else is written. */
  const outdated = new Set<string>()

  function add(object: string, key: string, text: string): void {
    const held = objects.get(object) ?? { pieces: new Map<string, string>(), chars: 0 }
    objects.set(object, held)
    held.pieces.set(key, text)
    held.chars += key.length + text.length
    objectByKey.set(key, object)
  }

  function drop(key: string): void {
    const object = objectByKey.get(key) ?? ''
    const held = objects.get(object)
    if (held === undefined) return
    held.chars -= key.length + (held.pieces.get(key)?.length ?? 0)
    held.pieces.delete(key)
    objectByKey.delete(key)
    dirty.add(object)
  }

  function objectWithRoom(chars: number): string {
    const countChars = (name: string) => objects.get(name)?.chars ?? 0
    const open = names.find(name => countChars(name) === 0 || countChars(name) + chars <= sharedChars)
    return open ?? names.reduce((least, name) => (countChars(name) < countChars(least) ? name : least))
  }

  for (const [object, data] of stored) for (const [key, text] of Object.entries(data)) add(object, key, text)
  const pieces = new Map([...objects.values()].flatMap(held => [...held.pieces]))
  const entries = new Map<string, FoundEntry>(joinPieces(pieces))
  const used = new Set([...entries.values()].flatMap(({ keys }) => keys))
  for (const key of pieces.keys()) if (!used.has(key)) drop(key)

  /**
   * Returns the object of the old version if the new version can replace it there by one write; otherwise
   * undefined.
   */
  function findOldObject(uid: string, old: FoundEntry | undefined, chars: number): string | undefined {
    const [key, ...others] = old === undefined ? [] : textKeys(old, uid)
    if (key === undefined || others.length > 0) return undefined
    const object = objectByKey.get(key)
    const held = object === undefined ? undefined : objects.get(object)
    if (held === undefined) return undefined
    const left = held.chars - key.length - (held.pieces.get(key)?.length ?? 0)
    return left + chars <= maxChars ? object : undefined
  }

  /** Replaces only the note. The text stays where it is, so that an interruption does not lose it. */
  function replaceNote(uid: string, old: FoundEntry, entry: LastGoodEntry): void {
    drop(noteKey(uid, old.generation))
    setEntry(uid, entry, textKeys(old, uid))
  }

  /**
   * Records the entry, and puts its note into the object of the first piece, so that one write stores both.
   */
  function setEntry(uid: string, entry: LastGoodEntry, keys: readonly string[]): void {
    const object = objectByKey.get(keys[0] ?? '') ?? ''
    const note = toNote(uid, entry)
    for (const [key, text] of note) {
      outdated.delete(key)
      drop(key)
      add(object, key, text)
    }
    dirty.add(object)
    entries.set(uid, { ...entry, keys: [...keys, ...note.map(([key]) => key)] })
  }

  return {
    entry: (uid: string): LastGoodEntry | undefined => entries.get(uid),
    uids: (): readonly string[] => [...entries.keys()],
    put(uid: string, entry: LastGoodEntry): void {
      const old = entries.get(uid)
      if (old?.generation === entry.generation && old.text === entry.text)
        return void replaceNote(uid, old, entry)
      const fresh = toPieces(uid, entry)
      const [[key, text] = ['', ''], ...others] = fresh
      const same = others.length > 0 ? undefined : findOldObject(uid, old, key.length + text.length)
      for (const oldKey of old?.keys ?? []) {
        if (same === undefined) outdated.add(oldKey)
        else drop(oldKey)
      }
      for (const [key, text] of fresh) {
        const object = same ?? objectWithRoom(key.length + text.length)
        outdated.delete(key)
        drop(key)
        add(object, key, text)
        dirty.add(object)
      }
      setEntry(
        uid,
        entry,
        fresh.map(([key]) => key),
      )
    },
    remove(uid: string): void {
      for (const key of entries.get(uid)?.keys ?? []) drop(key)
      entries.delete(uid)
    },
    /** Returns an object that must be written; undefined if none must. */
    nextUnwritten(): string | undefined {
      if (dirty.size === 0) {
        for (const key of outdated) drop(key)
        outdated.clear()
      }
      const [object] = dirty
      return object
    },
    /** Returns the data of an object for its next write. It is empty if the object must be deleted. */
    take(object: string): ObjectData {
      dirty.delete(object)
      const held = objects.get(object)
      if (held?.pieces.size === 0) objects.delete(object)
      return Object.fromEntries(held?.pieces ?? [])
    },
  }
}
