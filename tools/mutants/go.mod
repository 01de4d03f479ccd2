module github.com/gwanmun/gwanmun/tools/mutants

go 1.26
