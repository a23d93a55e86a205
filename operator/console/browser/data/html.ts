import htm from 'htm'
import { h, type VNode } from 'preact'

/** Creates elements from a template. Values are inserted as text, not as markup. */
export const html = htm.bind(h) as unknown as (strings: TemplateStringsArray, ...values: unknown[]) => VNode

export const fieldValue = ({ target }: Event) => (target as HTMLInputElement).value
