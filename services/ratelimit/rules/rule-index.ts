import type { Rule } from './compile.ts'

/** The rules of one value each, of all levels of all domains. */
export interface RuleIndex<S> {
  /** The rule of this very key and value at the level of this number. */
  find(level: number, key: string, value: string): Rule<S> | undefined
  /** Takes the place of another rule of the same level, key and value. */
  add(rule: Rule<S>): void
}

const initialSlots = 16

/**
 * One hash table instead of maps in maps: a look-up in rules that are in no cache of the processor waits for
 * memory three times a level instead of about ten times. The hashes lie by themselves, so that other rules of a slot
 * are hardly ever looked at.
 */
export function createRuleIndex<S>(): RuleIndex<S> {
  let hashes = new Int32Array(initialSlots)
  let rules: (Rule<S> | undefined)[] = Array(initialSlots).fill(undefined)
  let size = 0

  /** The slot of this rule, or the free one where it belongs. */
  function slotOf(hash: number, level: number, key: string, value: string): number {
    const last = hashes.length - 1
    for (let slot = hash & last; ; slot = (slot + 1) & last) {
      const rule = rules[slot]
      if (rule === undefined) return slot
      if (hashes[slot] !== hash) continue
      if (rule.level === level && rule.value === value && rule.key === key) return slot
    }
  }

  /** At most half of the slots are taken, so that the next free one is near. */
  function grow(): void {
    const before = { hashes, rules }
    hashes = new Int32Array(2 * before.hashes.length)
    rules = Array(hashes.length).fill(undefined)
    const last = hashes.length - 1
    for (const [old, rule] of before.rules.entries()) {
      if (rule === undefined) continue
      const hash = before.hashes[old] ?? 0
      let slot = hash & last
      while (rules[slot] !== undefined) slot = (slot + 1) & last
      hashes[slot] = hash
      rules[slot] = rule
    }
  }

  return {
    find: (level, key, value) => rules[slotOf(hashOf(level, key, value), level, key, value)],
    add(rule) {
      if (2 * size >= hashes.length) grow()
      const hash = hashOf(rule.level, rule.key, rule.value)
      const slot = slotOf(hash, rule.level, rule.key, rule.value)
      if (rules[slot] === undefined) size += 1
      hashes[slot] = hash
      rules[slot] = rule
    },
  }
}

/** FNV-1a over the UTF-16 units, stirred once more so that the lower bits depend on all. */
function hashOf(level: number, key: string, value: string): number {
  let hash = level
  for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ 0xffff, 0x01000193)
  for (let at = 0; at < value.length; at++) hash = Math.imul(hash ^ value.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
  return hash ^ (hash >>> 13)
}
