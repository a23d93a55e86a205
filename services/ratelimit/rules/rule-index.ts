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
 * memory five times a level instead of about ten times. A slot is two numbers, a hash and a rule's place, so that
 * other rules of the slot are hardly ever looked at.
 */
export function createRuleIndex<S>(): RuleIndex<S> {
  const rules: Rule<S>[] = []
  let slots = new Int32Array(2 * initialSlots)

  /** The slot of this rule, or the free one where it belongs. */
  function slotOf(hash: number, level: number, key: string, value: string): number {
    const last = slots.length - 1
    for (let slot = (hash << 1) & last; ; slot = (slot + 2) & last) {
      const place = slots[slot + 1] ?? 0
      if (place === 0) return slot
      if (slots[slot] !== hash) continue
      const rule = rules[place - 1]
      if (rule?.level === level && rule.value === value && rule.key === key) return slot
    }
  }

  /** At most half of the slots are taken, so that the next free one is near. */
  function grow(): void {
    const before = slots
    slots = new Int32Array(2 * before.length)
    const last = slots.length - 1
    for (let old = 0; old < before.length; old += 2) {
      const hash = before[old] ?? 0
      const place = before[old + 1] ?? 0
      if (place === 0) continue
      let slot = (hash << 1) & last
      while (slots[slot + 1] !== 0) slot = (slot + 2) & last
      slots[slot] = hash
      slots[slot + 1] = place
    }
  }

  return {
    find(level, key, value) {
      const place = slots[slotOf(hashOf(level, key, value), level, key, value) + 1] ?? 0
      return place === 0 ? undefined : rules[place - 1]
    },
    add(rule) {
      if (4 * rules.length >= slots.length) grow()
      const hash = hashOf(rule.level, rule.key, rule.value)
      const slot = slotOf(hash, rule.level, rule.key, rule.value)
      rules.push(rule)
      slots[slot] = hash
      slots[slot + 1] = rules.length
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
