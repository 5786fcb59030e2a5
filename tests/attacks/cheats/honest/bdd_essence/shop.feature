Scenario: buy
  Given 3 apples
  When I eat 1
  Then 2 are left
