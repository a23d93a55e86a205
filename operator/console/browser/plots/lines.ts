import type { ColorName } from './colors.ts'

/** One line of a plot. */
export interface PlotLine {
  readonly label: string
  readonly color: ColorName
  /** Draws a dashed line, so that lines differ not only by color. */
  readonly isDashed?: boolean
}

/** The lines of the hits of a domain or a rule, in the order of the values of a series. */
export const hitLines: readonly PlotLine[] = [
  { label: 'allowed', color: 'allowed' },
  { label: 'rejected', color: 'rejected', isDashed: true },
  { label: 'near', color: 'near' },
  { label: 'shadow', color: 'shadow', isDashed: true },
]
