import type { Locale } from '../../domain/input/request-bodies.ts'
import { danish } from './texts-da.ts'
import { english, type Texts } from './texts-en.ts'

/** The problems that the problem page explains: faults of links, and others. */
export type PageProblem = keyof Texts['problems']

const catalogue: Readonly<Record<Locale, Texts>> = { en: english, da: danish }

export function textsFor(locale: Locale): Texts {
  return catalogue[locale]
}
