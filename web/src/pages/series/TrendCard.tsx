import { useMemo } from 'react'
import { useChoices } from '@/app/choices'
import { intervalOf, JobLink } from '@/pages/series/PointsTable'
import { Trend } from '@/pages/series/Trend'
import { Card } from '@/parts/Card'
import { Empty } from '@/parts/Empty'
import { FilterWord } from '@/parts/Filters'
import { Verdict } from '@/parts/Mark'
import { Measured } from '@/parts/Measured'
import type { Alert, Point, SeriesFull } from '@/watching/types'
import { isCounted, momentUtc, numberIn } from '@/watching/words'

const RANGES = [
  ['all', 'All of it'],
  ['365d', 'A year'],
  ['90d', '90 days'],
  ['30d', '30 days'],
] as const
const RANGE_WORDS = ['all', '365d', '90d', '30d'] as const
const DAY_S = 86_400

interface TrendCardProps {
  full: SeriesFull
  points: Point[]
  alerts: Alert[]
}

/** The chart with its choices, and the result that was picked in it. */
export function TrendCard({ full, points, alerts }: TrendCardProps) {
  const { word, text, choose } = useChoices()
  const newest = points.at(-1)?.at ?? 0
  const range = isCounted(newest) ? 'all' : word('range', RANGE_WORDS)
  const begin = range === 'all' ? undefined : newest - Number.parseInt(range, 10) * DAY_S
  const recent = useMemo(
    () => (begin === undefined ? alerts : alerts.filter((one) => one.opened_at >= begin)),
    [alerts, begin],
  )
  const picked = points.find((one) => String(one.id) === text('point'))
  if (points.length === 0)
    return <Empty title="This series has no results yet.">They appear as soon as a job that measures it ends.</Empty>
  const choice = (
    <FilterWord
      label="Time shown"
      value={range}
      words={RANGES}
      onChoose={(next) => choose({ range: next === 'all' ? '' : next })}
    />
  )
  return (
    <Card title="Trend" aside={isCounted(newest) ? null : choice}>
      <Trend series={full.series} points={points} findings={full.findings} alerts={recent} begin={begin} />
      <Legend hasBand={numberIn(full.series.report, 'spread') !== null} />
      {picked && <Picked point={picked} full={full} onClose={() => choose({ point: '' })} />}
    </Card>
  )
}

function Legend({ hasBand }: { hasBand: boolean }) {
  const band = hasBand
    ? '; the band around them holds 95 % of results as long as nothing changes'
    : '; too few results to know how wide the band around them is'
  return (
    <p className="quiet">
      The lines are the levels between changes{band}. ▼ is a change for the worse, ▲ for the better, ◆ undecided; a
      hollow marker on a dashed line was expected. Dotted lines and the rows below show what changed around the results.
      Click a dot to see its result.
    </p>
  )
}

function Picked({ point, full, onClose }: { point: Point; full: SeriesFull; onClose: () => void }) {
  const { unit, better } = full.series
  return (
    <div className="picked" role="status">
      <span className="nowrap">{momentUtc(point.at)}</span>
      <Measured value={point.value} unit={unit} interval={intervalOf(point)} better={better} />
      {point.verdict && <Verdict verdict={point.verdict} />}
      <span>
        job <JobLink job={point.job} />
      </span>
      <button type="button" className="button plain" onClick={onClose}>
        Close
      </button>
    </div>
  )
}
